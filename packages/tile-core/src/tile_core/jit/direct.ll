; Calls the packed function of a kernel with the arguments of a Python call: see `direct.py`, whose records these are.
;
; `call` is a `PyCFunctionFastWithKeywords`; its self is a capsule with a %kernel. An argument becomes a cell
; { i32 type, i32 0, i64 value } of tvm-ffi: 0 None, 1 int, 2 bool, 3 float, 7 a pointer to a DLTensor, which lies here.

; DLTensor: { data, device type, device number, axes, dtype, extents, strides, byte offset }
%tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%cell = type { i32, i32, i64 }
; { tensor, parameter, is_neg, integer, real, true, false, none, describe, current_stream, allocate }
%kinds = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }
; { function, count, otherwise, failed, kinds }
%kernel = type { ptr, i64, ptr, ptr, ptr }

declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_Type(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare i32 @TVMFFIEnvSetStream(i32, i32, ptr, ptr)
declare i32 @TVMFFIEnvSetDLPackManagedTensorAllocator(ptr, i32, ptr)

define internal ptr @call(ptr %self, ptr %arguments, i64 %count, ptr %keywords) {
entry:
  %kernel = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %otherwise_at = getelementptr %kernel, ptr %kernel, i32 0, i32 2
  %failed_at = getelementptr %kernel, ptr %kernel, i32 0, i32 3
  %wanted_at = getelementptr %kernel, ptr %kernel, i32 0, i32 1
  %wanted = load i64, ptr %wanted_at
  %fits = icmp eq i64 %count, %wanted
  %plain = icmp eq ptr %keywords, null
  %simple = and i1 %fits, %plain
  br i1 %simple, label %prepare, label %explain
explain:
  %otherwise = load ptr, ptr %otherwise_at
  %explained = call ptr @PyObject_Vectorcall(ptr %otherwise, ptr %arguments, i64 %count, ptr %keywords)
  ret ptr %explained
prepare:
  %kinds_at = getelementptr %kernel, ptr %kernel, i32 0, i32 4
  %kinds = load ptr, ptr %kinds_at
  %tensor_type_at = getelementptr %kinds, ptr %kinds, i32 0, i32 0
  %tensor_type = load ptr, ptr %tensor_type_at
  %parameter_type_at = getelementptr %kinds, ptr %kinds, i32 0, i32 1
  %parameter_type = load ptr, ptr %parameter_type_at
  %negative_at = getelementptr %kinds, ptr %kinds, i32 0, i32 2
  %negative = load ptr, ptr %negative_at
  %int_type_at = getelementptr %kinds, ptr %kinds, i32 0, i32 3
  %int_type = load ptr, ptr %int_type_at
  %float_type_at = getelementptr %kinds, ptr %kinds, i32 0, i32 4
  %float_type = load ptr, ptr %float_type_at
  %true_at = getelementptr %kinds, ptr %kinds, i32 0, i32 5
  %true = load ptr, ptr %true_at
  %false_at = getelementptr %kinds, ptr %kinds, i32 0, i32 6
  %false = load ptr, ptr %false_at
  %none_at = getelementptr %kinds, ptr %kinds, i32 0, i32 7
  %none = load ptr, ptr %none_at
  %describe_at = getelementptr %kinds, ptr %kinds, i32 0, i32 8
  %describe = load ptr, ptr %describe_at
  %cells = alloca %cell, i64 %count
  %tensors = alloca %tensor, i64 %count
  %result = alloca %cell
  store %cell zeroinitializer, ptr %result
  br label %each
each:
  %at = phi i64 [ 0, %prepare ], [ %next, %kept ]
  %first_device = phi ptr [ null, %prepare ], [ %new_device, %kept ]
  %finished = icmp eq i64 %at, %count
  br i1 %finished, label %launch, label %look
look:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %at
  %argument = load ptr, ptr %argument_at
  %cell = getelementptr %cell, ptr %cells, i64 %at
  store %cell zeroinitializer, ptr %cell
  %value = getelementptr %cell, ptr %cell, i32 0, i32 2
  %type = call ptr @PyObject_Type(ptr %argument)
  call void @Py_DecRef(ptr %type)
  %is_tensor = icmp eq ptr %type, %tensor_type
  %is_parameter = icmp eq ptr %type, %parameter_type
  %of_torch = or i1 %is_tensor, %is_parameter
  br i1 %of_torch, label %ask, label %scalar
ask:
  %answer = call ptr @PyObject_Vectorcall(ptr %negative, ptr %argument_at, i64 1, ptr null)
  %positive = icmp eq ptr %answer, %false
  br i1 %positive, label %view, label %lazy
lazy:
  %unanswered = icmp eq ptr %answer, null
  br i1 %unanswered, label %clear, label %drop
drop:
  call void @Py_DecRef(ptr %answer)
  br label %explain
view:
  call void @Py_DecRef(ptr %answer)
  %tensor = getelementptr %tensor, ptr %tensors, i64 %at
  %described = call i32 %describe(ptr %argument, ptr %tensor)
  %is_described = icmp eq i32 %described, 0
  br i1 %is_described, label %carry, label %clear
clear:
  call void @PyErr_Clear()
  br label %explain
carry:
  store i32 7, ptr %cell
  store ptr %tensor, ptr %value
  %device_at = getelementptr %tensor, ptr %tensor, i32 0, i32 1
  %device_type = load i32, ptr %device_at
  %on_host = icmp eq i32 %device_type, 1
  %seen = icmp ne ptr %first_device, null
  %keep = or i1 %on_host, %seen
  %chosen = select i1 %keep, ptr %first_device, ptr %device_at
  br label %kept
scalar:
  %is_int = icmp eq ptr %type, %int_type
  br i1 %is_int, label %integer, label %not_int
integer:
  %whole = call i64 @PyLong_AsLongLong(ptr %argument)
  store i32 1, ptr %cell
  store i64 %whole, ptr %value
  %suspect = icmp eq i64 %whole, -1
  br i1 %suspect, label %overflow, label %kept
overflow:
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %kept, label %clear
not_int:
  %is_float = icmp eq ptr %type, %float_type
  br i1 %is_float, label %real, label %not_float
real:
  %number = call double @PyFloat_AsDouble(ptr %argument)
  store i32 3, ptr %cell
  store double %number, ptr %value
  br label %kept
not_float:
  %is_true = icmp eq ptr %argument, %true
  %is_false = icmp eq ptr %argument, %false
  %is_bool = or i1 %is_true, %is_false
  br i1 %is_bool, label %truth, label %not_bool
truth:
  store i32 2, ptr %cell
  %bit = zext i1 %is_true to i64
  store i64 %bit, ptr %value
  br label %kept
not_bool:
  %is_none = icmp eq ptr %argument, %none
  br i1 %is_none, label %kept, label %explain
kept:
  %new_device = phi ptr [ %chosen, %carry ], [ %first_device, %integer ], [ %first_device, %overflow ], [ %first_device, %real ], [ %first_device, %truth ], [ %first_device, %not_bool ]
  %next = add i64 %at, 1
  br label %each
launch:
  %stream = alloca ptr
  %before = alloca ptr
  store ptr null, ptr %stream
  store ptr null, ptr %before
  %streamless = icmp eq ptr %first_device, null
  br i1 %streamless, label %allocate, label %find_stream
find_stream:
  %find_at = getelementptr %kinds, ptr %kinds, i32 0, i32 9
  %find = load ptr, ptr %find_at
  %kind = load i32, ptr %first_device
  %number_at = getelementptr i32, ptr %first_device, i64 1
  %device_number = load i32, ptr %number_at
  %found = call i32 %find(i32 %kind, i32 %device_number, ptr %stream)
  %is_found = icmp eq i32 %found, 0
  br i1 %is_found, label %enter_stream, label %clear
enter_stream:
  %current = load ptr, ptr %stream
  %entered = call i32 @TVMFFIEnvSetStream(i32 %kind, i32 %device_number, ptr %current, ptr %before)
  br label %allocate
allocate:
  %allocator_at = getelementptr %kinds, ptr %kinds, i32 0, i32 10
  %allocator = load ptr, ptr %allocator_at
  %last_allocator = alloca ptr
  %given = call i32 @TVMFFIEnvSetDLPackManagedTensorAllocator(ptr %allocator, i32 0, ptr %last_allocator)
  %function = load ptr, ptr %kernel
  %number_of = trunc i64 %count to i32
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 @TVMFFIFunctionCall(ptr %function, ptr %cells, i32 %number_of, ptr %result)
  call void @PyEval_RestoreThread(ptr %thread)
  %old_allocator = load ptr, ptr %last_allocator
  %same_allocator = icmp eq ptr %old_allocator, %allocator
  br i1 %same_allocator, label %leave_stream, label %leave_allocator
leave_allocator:
  %returned = call i32 @TVMFFIEnvSetDLPackManagedTensorAllocator(ptr %old_allocator, i32 0, ptr null)
  br label %leave_stream
leave_stream:
  %was = load ptr, ptr %before
  %is = load ptr, ptr %stream
  %unchanged = icmp eq ptr %was, %is
  br i1 %unchanged, label %judge, label %restore
restore:
  %kind_2 = load i32, ptr %first_device
  %number_2_at = getelementptr i32, ptr %first_device, i64 1
  %number_2 = load i32, ptr %number_2_at
  %restored = call i32 @TVMFFIEnvSetStream(i32 %kind_2, i32 %number_2, ptr %was, ptr null)
  br label %judge
judge:
  %ran = icmp eq i32 %status, 0
  br i1 %ran, label %succeed, label %fail
succeed:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
fail:
  %pending = call ptr @PyErr_Occurred()
  %quiet = icmp eq ptr %pending, null
  br i1 %quiet, label %report, label %pass_on
pass_on:
  ret ptr null
report:
  %failed = load ptr, ptr %failed_at
  %reported = call ptr @PyObject_Vectorcall(ptr %failed, ptr %arguments, i64 %count, ptr null)
  ret ptr %reported
}

define i32 @__tvm_ffi_tile_direct_call(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %address = ptrtoint ptr @call to i64
  store i32 1, ptr %result
  %zero_at = getelementptr i8, ptr %result, i32 4
  store i32 0, ptr %zero_at
  %value_at = getelementptr i8, ptr %result, i32 8
  store i64 %address, ptr %value_at
  ret i32 0
}

; Fails, and leaves the error of the last call that failed as it is.
define i32 @__tvm_ffi_tile_direct_raise(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  ret i32 -1
}
