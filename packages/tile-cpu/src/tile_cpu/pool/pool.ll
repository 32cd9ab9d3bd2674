; Runs the blocks of a launch on the cores.
;
; A kernel calls `start(pool, blocks, cells, count)`, where `blocks(cells, begin, end)` runs a range of blocks and returns 0, or the
; error status that the whole launch then returns. Ranges are taken from an atomic counter, so that uneven blocks balance; a range is
; an eighth of a core's share, at least one block.
;
; The pool is a record that the runtime owns, { ptr start; ptr parallel; i64 threads; ptr limit; ptr take; ptr give }. `parallel` is the entry of the
; thread pool that this process uses: GOMP_parallel of libgomp (`void (void (*)(void *), void *, unsigned, unsigned)`), or
; TVMBackendParallelLaunch (`int (int (*)(int, void *, void *), void *, int)`). With `threads` 0 the number of threads is what
; `limit` (`int (void)`, omp_get_max_threads) returns at the time of the launch.

%pool = type { ptr, ptr, i64, ptr, ptr, ptr }
%launch = type { ptr, ptr, i64, i64, i64, i32, i32 }

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @work(ptr %launch) {
entry:
  %blocks_at = getelementptr %launch, ptr %launch, i32 0, i32 0
  %blocks = load ptr, ptr %blocks_at
  %cells_at = getelementptr %launch, ptr %launch, i32 0, i32 1
  %cells = load ptr, ptr %cells_at
  %count_at = getelementptr %launch, ptr %launch, i32 0, i32 2
  %count = load i64, ptr %count_at
  %step_at = getelementptr %launch, ptr %launch, i32 0, i32 3
  %step = load i64, ptr %step_at
  %next_at = getelementptr %launch, ptr %launch, i32 0, i32 4
  %status_at = getelementptr %launch, ptr %launch, i32 0, i32 5
  br label %take
take:
  %begin = atomicrmw add ptr %next_at, i64 %step monotonic
  %done = icmp sge i64 %begin, %count
  br i1 %done, label %leave, label %run
run:
  %stop = add i64 %begin, %step
  %end = call i64 @llvm.smin.i64(i64 %stop, i64 %count)
  %status = call i32 %blocks(ptr %cells, i64 %begin, i64 %end)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %fail, label %take
fail:
  store atomic i32 %status, ptr %status_at monotonic, align 4
  br label %leave
leave:
  ret void
}

define internal i64 @threads(ptr %pool) {
entry:
  %threads_at = getelementptr %pool, ptr %pool, i32 0, i32 2
  %fixed = load i64, ptr %threads_at
  %asked = icmp eq i64 %fixed, 0
  br i1 %asked, label %ask, label %known
ask:
  %limit_at = getelementptr %pool, ptr %pool, i32 0, i32 3
  %limit = load ptr, ptr %limit_at
  %answer = call i32 %limit()
  %wide = sext i32 %answer to i64
  ret i64 %wide
known:
  ret i64 %fixed
}

define internal void @prepare(ptr %launch, i64 %threads, ptr %blocks, ptr %cells, i64 %count) {
  %ranges = mul i64 %threads, 8
  %share = sdiv i64 %count, %ranges
  %step = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %blocks_at = getelementptr %launch, ptr %launch, i32 0, i32 0
  store ptr %blocks, ptr %blocks_at
  %cells_at = getelementptr %launch, ptr %launch, i32 0, i32 1
  store ptr %cells, ptr %cells_at
  %count_at = getelementptr %launch, ptr %launch, i32 0, i32 2
  store i64 %count, ptr %count_at
  %step_at = getelementptr %launch, ptr %launch, i32 0, i32 3
  store i64 %step, ptr %step_at
  %next_at = getelementptr %launch, ptr %launch, i32 0, i32 4
  store i64 0, ptr %next_at
  %status_at = getelementptr %launch, ptr %launch, i32 0, i32 5
  store i32 0, ptr %status_at
  ret void
}

define internal i32 @finish(ptr %launch) {
  %status_at = getelementptr %launch, ptr %launch, i32 0, i32 5
  %status = load i32, ptr %status_at
  ret i32 %status
}

define i32 @tile_start_openmp(ptr %pool, ptr %blocks, ptr %cells, i64 %count) {
entry:
  %launch = alloca %launch
  %threads = call i64 @threads(ptr %pool)
  %alone = icmp sle i64 %threads, 1
  br i1 %alone, label %serial, label %spread
serial:
  %direct = call i32 %blocks(ptr %cells, i64 0, i64 %count)
  ret i32 %direct
spread:
  call void @prepare(ptr %launch, i64 %threads, ptr %blocks, ptr %cells, i64 %count)
  %parallel_at = getelementptr %pool, ptr %pool, i32 0, i32 1
  %parallel = load ptr, ptr %parallel_at
  %wanted = call i64 @llvm.smin.i64(i64 %threads, i64 %count)
  %team = trunc i64 %wanted to i32
  call void %parallel(ptr @work, ptr %launch, i32 %team, i32 0)
  %status = call i32 @finish(ptr %launch)
  ret i32 %status
}

; TVM's pool ends the process when more tasks are asked for than it has workers, a number that it does not tell and that is smaller
; than the number of cores where cores differ. So all its workers are asked, and those that are too many leave.
define internal i32 @task(i32 %index, ptr %environment, ptr %launch) {
entry:
  %team_at = getelementptr %launch, ptr %launch, i32 0, i32 6
  %team = load i32, ptr %team_at
  %wanted = icmp slt i32 %index, %team
  br i1 %wanted, label %run, label %leave
run:
  call void @work(ptr %launch)
  br label %leave
leave:
  ret i32 0
}

define i32 @tile_start_tvm(ptr %pool, ptr %blocks, ptr %cells, i64 %count) {
entry:
  %launch = alloca %launch
  %threads = call i64 @threads(ptr %pool)
  %alone = icmp sle i64 %threads, 1
  br i1 %alone, label %serial, label %spread
serial:
  %direct = call i32 %blocks(ptr %cells, i64 0, i64 %count)
  ret i32 %direct
spread:
  call void @prepare(ptr %launch, i64 %threads, ptr %blocks, ptr %cells, i64 %count)
  %parallel_at = getelementptr %pool, ptr %pool, i32 0, i32 1
  %parallel = load ptr, ptr %parallel_at
  %wanted = call i64 @llvm.smin.i64(i64 %threads, i64 %count)
  %team = trunc i64 %wanted to i32
  %team_at = getelementptr %launch, ptr %launch, i32 0, i32 6
  store i32 %team, ptr %team_at
  %started = call i32 %parallel(ptr @task, ptr %launch, i32 0)
  %status = call i32 @finish(ptr %launch)
  %failed = icmp ne i32 %status, 0
  %result = select i1 %failed, i32 %status, i32 %started
  ret i32 %result
}

; Packed functions of TVM-FFI: the address of each `start`, as an integer (type index 1).

define internal void @return_address(ptr %result, ptr %address) {
  store i32 1, ptr %result
  %padding = getelementptr i8, ptr %result, i64 4
  store i32 0, ptr %padding
  %value = getelementptr i8, ptr %result, i64 8
  store ptr %address, ptr %value
  ret void
}

define i32 @__tvm_ffi_start_openmp(ptr %self, ptr %args, i32 %count, ptr %result) {
  call void @return_address(ptr %result, ptr @tile_start_openmp)
  ret i32 0
}

define i32 @__tvm_ffi_start_tvm(ptr %self, ptr %args, i32 %count, ptr %result) {
  call void @return_address(ptr %result, ptr @tile_start_tvm)
  ret i32 0
}

; Memory for the tiles of blocks: `take(bytes)` and `give(memory)`. The blocks of memory of a kernel's last call serve its next one, so
; that a call allocates nothing. They are kept by size, rounded up to a power of two: 64 of each, of 64 MiB at most. A block begins with
; the address that the C library knows it by and the logarithm of its size; what it holds for tiles begins a cache line.

%memory = type { ptr, i64 }

@kept = internal global [27 x [64 x ptr]] zeroinitializer

declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare ptr @llvm.ptrmask.p0.i64(ptr, i64)

define ptr @tile_take(i64 %bytes) {
entry:
  %some = call i64 @llvm.umax.i64(i64 %bytes, i64 4096)
  %possible = icmp ult i64 %some, 70368744177664
  br i1 %possible, label %sized, label %refuse
refuse:
  ret ptr null
sized:
  %below = sub i64 %some, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %below, i1 true)
  %class = sub i64 64, %zeros
  %keeps = icmp ule i64 %class, 26
  br i1 %keeps, label %look, label %allocate
look:
  %slot = phi i64 [ 0, %sized ], [ %next, %miss ]
  %place = getelementptr [27 x [64 x ptr]], ptr @kept, i64 0, i64 %class, i64 %slot
  %seen = load atomic ptr, ptr %place monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %miss, label %grab
grab:
  %got = atomicrmw xchg ptr %place, ptr null acquire
  %lost = icmp eq ptr %got, null
  br i1 %lost, label %miss, label %found
found:
  ret ptr %got
miss:
  %next = add i64 %slot, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %look, label %allocate
allocate:
  %exact = shl i64 1, %class
  %whole = add i64 %exact, 128
  %base = call ptr @malloc(i64 %whole)
  %none = icmp eq ptr %base, null
  br i1 %none, label %refuse, label %mark
mark:
  %behind = getelementptr i8, ptr %base, i64 127
  %memory = call ptr @llvm.ptrmask.p0.i64(ptr %behind, i64 -64)
  %header = getelementptr %memory, ptr %memory, i64 -1
  store ptr %base, ptr %header, align 8
  %class_at = getelementptr %memory, ptr %header, i32 0, i32 1
  store i64 %class, ptr %class_at, align 8
  ret ptr %memory
}

define void @tile_give(ptr %memory) {
entry:
  %header = getelementptr %memory, ptr %memory, i64 -1
  %class_at = getelementptr %memory, ptr %header, i32 0, i32 1
  %class = load i64, ptr %class_at, align 8
  %keeps = icmp ule i64 %class, 26
  br i1 %keeps, label %look, label %release
look:
  %slot = phi i64 [ 0, %entry ], [ %next, %taken ]
  %place = getelementptr [27 x [64 x ptr]], ptr @kept, i64 0, i64 %class, i64 %slot
  %seen = load atomic ptr, ptr %place monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %put, label %taken
put:
  %pair = cmpxchg ptr %place, ptr null, ptr %memory release monotonic
  %done = extractvalue { ptr, i1 } %pair, 1
  br i1 %done, label %leave, label %taken
taken:
  %next = add i64 %slot, 1
  %more = icmp ult i64 %next, 64
  br i1 %more, label %look, label %release
release:
  %base = load ptr, ptr %header, align 8
  call void @free(ptr %base)
  br label %leave
leave:
  ret void
}

define i32 @__tvm_ffi_take(ptr %self, ptr %args, i32 %count, ptr %result) {
  call void @return_address(ptr %result, ptr @tile_take)
  ret i32 0
}

define i32 @__tvm_ffi_give(ptr %self, ptr %args, i32 %count, ptr %result) {
  call void @return_address(ptr %result, ptr @tile_give)
  ret i32 0
}
