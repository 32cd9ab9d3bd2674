; Launches kernels of one module through the CUDA driver; called by the host code of `tile_core.device.host`.
;
; The record is the runtime's, { ptr cuLaunchKernel, ptr cuCtxGetCurrent, ptr cuCtxPushCurrent, ptr cuCtxPopCurrent,
; ptr get_stream, ptr prepare, ptr devices, i32 status, ptr cuTensorMapEncodeTiled, i32 refusal, ptr name,
; [24 x i64] words, ptr cuLaunchKernelEx, i32 refused, i32 unused, [3 x i64] grid }. `devices` has an entry { ptr context, ptr kernels } for each device; `kernels` is null until
; `prepare(device, kernel)`, which loads the module there and returns 0 or a status of the driver. A kernel that was not
; compiled with the others has no function until `prepare` is called for it.
; A kernel is { ptr function, i32 x, i32 y, i32 z, i32 shared_bytes, i32 parameters, ptr attributes, i32 count, i32 window }.
; One with attributes is launched by `cuLaunchKernelEx`; the first of them is an access policy window whose base is parameter
; `window`, where that is not negative. When the driver refuses, the record keeps the kernel and the grid.
; `get_stream(2, device)` is the stream on which the caller works. Parameters are the second halves of the 16-byte cells, or what they point to where a cell begins
; with 1.
;
; `describe` makes a tensor map of the words of `tile_cuda/instructions/tensor_map.py`. When the driver refuses, the record
; keeps the words and the name.

%record = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, i32, ptr, i32, ptr, [24 x i64], ptr, i32, i32, [3 x i64] }
%device = type { ptr, ptr }
%kernel = type { ptr, i32, i32, i32, i32, i32, ptr, i32, i32 }
; CUlaunchAttribute is 72 bytes, its value begins at byte 8. CUlaunchConfig:
%attribute = type { i64, [8 x i64] }
%config = type { i32, i32, i32, i32, i32, i32, i32, ptr, ptr, i32 }

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @note(ptr %record, i32 %index, i64 %x, i64 %y, i64 %z) {
  %refused_at = getelementptr %record, ptr %record, i32 0, i32 13
  store i32 %index, ptr %refused_at
  %x_at = getelementptr %record, ptr %record, i32 0, i32 15, i32 0
  store i64 %x, ptr %x_at
  %y_at = getelementptr %record, ptr %record, i32 0, i32 15, i32 1
  store i64 %y, ptr %y_at
  %z_at = getelementptr %record, ptr %record, i32 0, i32 15, i32 2
  store i64 %z, ptr %z_at
  ret void
}

define internal i32 @launch(ptr %record, i32 %index, ptr %cells, i64 %x, i64 %y, i64 %z, i32 %given) {
entry:
  %status_at = getelementptr %record, ptr %record, i32 0, i32 7
  %nowhere = icmp slt i32 %given, 0
  %number = select i1 %nowhere, i32 0, i32 %given
  %devices_at = getelementptr %record, ptr %record, i32 0, i32 6
  %devices = load ptr, ptr %devices_at
  %context_at = getelementptr %device, ptr %devices, i32 %number, i32 0
  %kernels_at = getelementptr %device, ptr %devices, i32 %number, i32 1
  %found = load ptr, ptr %kernels_at
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %load, label %loaded_before
loaded_before:
  %own_at = getelementptr %kernel, ptr %found, i32 %index, i32 0
  %own = load ptr, ptr %own_at
  %spare = icmp eq ptr %own, null
  br i1 %spare, label %load, label %ready
load:
  %prepare_at = getelementptr %record, ptr %record, i32 0, i32 5
  %prepare = load ptr, ptr %prepare_at
  %loaded = call i32 %prepare(i32 %number, i32 %index)
  %unloaded = icmp ne i32 %loaded, 0
  br i1 %unloaded, label %fail_load, label %ready
fail_load:
  store i32 %loaded, ptr %status_at
  call void @note(ptr %record, i32 %index, i64 %x, i64 %y, i64 %z)
  ret i32 %loaded
ready:
  %kernels = load ptr, ptr %kernels_at
  %context = load ptr, ptr %context_at
  %current_at = alloca ptr
  store ptr null, ptr %current_at
  %get_current_at = getelementptr %record, ptr %record, i32 0, i32 1
  %get_current = load ptr, ptr %get_current_at
  %got = call i32 %get_current(ptr %current_at)
  %current = load ptr, ptr %current_at
  %elsewhere = icmp ne ptr %current, %context
  br i1 %elsewhere, label %push, label %here
push:
  %push_at = getelementptr %record, ptr %record, i32 0, i32 2
  %push_current = load ptr, ptr %push_at
  %pushed = call i32 %push_current(ptr %context)
  br label %here
here:
  %stream_at = getelementptr %record, ptr %record, i32 0, i32 4
  %get_stream = load ptr, ptr %stream_at
  %stream = call ptr %get_stream(i32 2, i32 %number)
  %function_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 0
  %function = load ptr, ptr %function_at
  %bx_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 1
  %bx = load i32, ptr %bx_at
  %by_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 2
  %by = load i32, ptr %by_at
  %bz_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 3
  %bz = load i32, ptr %bz_at
  %shared_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 4
  %shared = load i32, ptr %shared_at
  %count_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 5
  %count = load i32, ptr %count_at
  %parameters = alloca ptr, i32 %count
  br label %fill
fill:
  %at = phi i32 [ 0, %here ], [ %next, %point ]
  %filled = icmp eq i32 %at, %count
  br i1 %filled, label %start, label %point
point:
  %slot = mul i32 %at, 16
  %value = add i32 %slot, 8
  %cell = getelementptr i8, ptr %cells, i32 %value
  %kind_at = getelementptr i8, ptr %cells, i32 %slot
  %kind = load i32, ptr %kind_at
  %by_reference = icmp eq i32 %kind, 1
  %referred = load ptr, ptr %cell
  %parameter = select i1 %by_reference, ptr %referred, ptr %cell
  %place = getelementptr ptr, ptr %parameters, i32 %at
  store ptr %parameter, ptr %place
  %next = add i32 %at, 1
  br label %fill
start:
  %gx = trunc i64 %x to i32
  %gy = trunc i64 %y to i32
  %gz = trunc i64 %z to i32
  %number_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 7
  %attribute_count = load i32, ptr %number_at
  %plain = icmp eq i32 %attribute_count, 0
  br i1 %plain, label %simply, label %with_attributes
simply:
  %launch_at = getelementptr %record, ptr %record, i32 0, i32 0
  %launch_kernel = load ptr, ptr %launch_at
  %launched = call i32 %launch_kernel(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz, i32 %shared, ptr %stream, ptr %parameters, ptr null)
  br label %done
with_attributes:
  %attributes_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 6
  %shared_attributes = load ptr, ptr %attributes_at
  %attributes = alloca %attribute, i32 %attribute_count
  %wide_count = zext i32 %attribute_count to i64
  %bytes = mul i64 %wide_count, 72
  call void @llvm.memcpy.p0.p0.i64(ptr %attributes, ptr %shared_attributes, i64 %bytes, i1 false)
  %window_at = getelementptr %kernel, ptr %kernels, i32 %index, i32 8
  %window = load i32, ptr %window_at
  %windowless = icmp slt i32 %window, 0
  br i1 %windowless, label %configure, label %place_window
place_window:
  %window_slot = mul i32 %window, 16
  %window_value = add i32 %window_slot, 8
  %window_cell = getelementptr i8, ptr %cells, i32 %window_value
  %window_base = load ptr, ptr %window_cell
  %base_at = getelementptr i8, ptr %attributes, i32 8
  store ptr %window_base, ptr %base_at
  br label %configure
configure:
  %config = alloca %config
  %c0 = insertvalue %config zeroinitializer, i32 %gx, 0
  %c1 = insertvalue %config %c0, i32 %gy, 1
  %c2 = insertvalue %config %c1, i32 %gz, 2
  %c3 = insertvalue %config %c2, i32 %bx, 3
  %c4 = insertvalue %config %c3, i32 %by, 4
  %c5 = insertvalue %config %c4, i32 %bz, 5
  %c6 = insertvalue %config %c5, i32 %shared, 6
  %c7 = insertvalue %config %c6, ptr %stream, 7
  %c8 = insertvalue %config %c7, ptr %attributes, 8
  %c9 = insertvalue %config %c8, i32 %attribute_count, 9
  store %config %c9, ptr %config
  %ex_at = getelementptr %record, ptr %record, i32 0, i32 12
  %launch_ex = load ptr, ptr %ex_at
  %launched_ex = call i32 %launch_ex(ptr %config, ptr %function, ptr %parameters, ptr null)
  br label %done
done:
  %status = phi i32 [ %launched, %simply ], [ %launched_ex, %configure ]
  store i32 %status, ptr %status_at
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %keep, label %restore
keep:
  call void @note(ptr %record, i32 %index, i64 %x, i64 %y, i64 %z)
  br label %restore
restore:
  br i1 %elsewhere, label %pop, label %leave
pop:
  %pop_at = getelementptr %record, ptr %record, i32 0, i32 3
  %pop_current = load ptr, ptr %pop_at
  %popped = call i32 %pop_current(ptr %current_at)
  br label %leave
leave:
  ret i32 %status
}

define internal i32 @describe(ptr %record, ptr %map, ptr %words, ptr %name) {
entry:
  %address_at = getelementptr i64, ptr %words, i32 0
  %address = load ptr, ptr %address_at
  %extents = getelementptr i64, ptr %words, i32 1
  %strides = getelementptr i64, ptr %words, i32 6
  %box = getelementptr i64, ptr %words, i32 10
  %steps = getelementptr i64, ptr %words, i32 13
  %type_at = getelementptr i64, ptr %words, i32 16
  %type = load i32, ptr %type_at
  %rank_at = getelementptr i64, ptr %words, i32 17
  %rank = load i32, ptr %rank_at
  %swizzle_at = getelementptr i64, ptr %words, i32 18
  %swizzle = load i32, ptr %swizzle_at
  %promotion_at = getelementptr i64, ptr %words, i32 19
  %promotion = load i32, ptr %promotion_at
  %fill_at = getelementptr i64, ptr %words, i32 20
  %fill = load i32, ptr %fill_at
  %encode_at = getelementptr %record, ptr %record, i32 0, i32 8
  %encode = load ptr, ptr %encode_at
  %absent = icmp eq ptr %encode, null
  br i1 %absent, label %judge, label %make
make:
  %made = call i32 %encode(ptr %map, i32 %type, i32 %rank, ptr %address, ptr %extents, ptr %strides, ptr %box, ptr %steps, i32 0, i32 %swizzle, i32 %promotion, i32 %fill)
  br label %judge
judge:
  ; CUDA_ERROR_NOT_SUPPORTED where the driver is older than tensor maps.
  %status = phi i32 [ 801, %entry ], [ %made, %make ]
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %keep, label %leave
keep:
  %refusal_at = getelementptr %record, ptr %record, i32 0, i32 9
  store i32 %status, ptr %refusal_at
  %name_at = getelementptr %record, ptr %record, i32 0, i32 10
  store ptr %name, ptr %name_at
  %kept_at = getelementptr %record, ptr %record, i32 0, i32 11
  %kept = load [24 x i64], ptr %words
  store [24 x i64] %kept, ptr %kept_at
  br label %leave
leave:
  ret i32 %status
}

define internal i32 @give(ptr %function, ptr %result) {
  %address = ptrtoint ptr %function to i64
  store i32 1, ptr %result
  %zero_at = getelementptr i8, ptr %result, i32 4
  store i32 0, ptr %zero_at
  %value_at = getelementptr i8, ptr %result, i32 8
  store i64 %address, ptr %value_at
  ret i32 0
}

define i32 @__tvm_ffi_tile_cuda_launcher(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %status = call i32 @give(ptr @launch, ptr %result)
  ret i32 %status
}

define i32 @__tvm_ffi_tile_cuda_describer(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %status = call i32 @give(ptr @describe, ptr %result)
  ret i32 %status
}
