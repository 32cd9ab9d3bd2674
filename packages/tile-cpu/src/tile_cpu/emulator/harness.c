// The program around a kernel that runs in a process of its own: reads a call, makes it, writes what it left.
//
// stdin: int64 `words`, then that many int64, then the bytes of the segments, one after the other.
//   words: threads; number of segments, address and size of each; number of arguments, each
//          type index, value                                   of a scalar, a null pointer, or a pointer into a segment
//          7, address, type code, bits, lanes, rank, extents, strides                               of a tensor
// stdout: texts that end with NUL (a printed line: "print", the number of values, one text each; a raised error: "error", kind, message;
//         at the end: "done"), then the bytes of the segments.
//
// A segment lies at another address than in the caller, at the same place in a page: what is aligned there is aligned here.
// Here are the functions of TVM-FFI, and of the two thread pools, that kernels and `pool.ll` call.

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kNone = 0, kInt = 1, kBool = 2, kFloat = 3, kPointer = 4, kTensor = 7, kText = 8 };
enum { kPage = 4096, kHost = 1 };

typedef struct {
  int32_t type, padding;
  union {
    int64_t integer;
    double real;
    void *pointer;
  };
} Any;

typedef struct {
  void *data;
  int32_t device, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *extents, *strides;
  uint64_t offset;
} Tensor;

typedef struct {
  int64_t address, size;
  char *memory;
} Segment;

static FILE *answer;

static void give_up(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

static void say(const char *text) { fwrite(text, 1, strlen(text) + 1, answer); }

// Errors of TVM-FFI.

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  say("error");
  say(kind);
  for (int32_t part = 0; part < count; ++part) {
    if (parts[part] != NULL) fputs(parts[part], answer);
  }
  fputc(0, answer);
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1); }

// The only function that a kernel asks for by name is the one that prints.

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static int call_print(void *function, Any *arguments, int32_t count, Any *result) {
  char text[64];
  (void)function;
  pthread_mutex_lock(&printing);
  say("print");
  snprintf(text, sizeof text, "%d", count);
  say(text);
  for (Any *argument = arguments; argument < arguments + count; ++argument) {
    if (argument->type == kText) {
      say(argument->pointer);
      continue;
    }
    const char *form = argument->type == kFloat ? "f%a" : argument->type == kBool ? "b%lld" : "i%lld";
    if (argument->type == kFloat) {
      snprintf(text, sizeof text, form, argument->real);
    } else {
      snprintf(text, sizeof text, form, (long long)argument->integer);
    }
    say(text);
  }
  pthread_mutex_unlock(&printing);
  result->type = kNone;
  result->integer = 0;
  return 0;
}

static int find_print(void *library, const char *name, void **found) {
  (void)library;
  (void)name;
  *found = &printing;
  return 0;
}

static int initialize_once(void **handle, int (*initialize)(void **)) { return *handle == NULL ? initialize(handle) : 0; }

// A kernel that prints has these pointers, which its loader fills.
extern int (*__TVMFFIFunctionCall)(void *, Any *, int32_t, Any *) __attribute__((weak));
extern int (*__TVMFFIEnvModLookupFromImports)(void *, const char *, void **) __attribute__((weak));
extern int (*__TVMFFIHandleInitOnce)(void **, int (*)(void **)) __attribute__((weak));

static void fill_pointers(void) {
  if (&__TVMFFIFunctionCall != NULL) __TVMFFIFunctionCall = call_print;
  if (&__TVMFFIEnvModLookupFromImports != NULL) __TVMFFIEnvModLookupFromImports = find_print;
  if (&__TVMFFIHandleInitOnce != NULL) __TVMFFIHandleInitOnce = initialize_once;
}

// The pool of `pool.ll`, on threads that a launch starts and joins.

typedef struct {
  int (*start)(void *, void *, void *, int64_t);
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
  int64_t threads;
  int (*limit)(void);
  void *(*take)(int64_t);
  void (*give)(void *);
} Pool;

extern int tile_start_openmp(void *, void *, void *, int64_t);
extern void *tile_take(int64_t);
extern void tile_give(void *);
extern int __tvm_ffi_tile_set_pool(void *, Any *, int32_t, Any *);
extern int tile_kernel(void *, Any *, int32_t, Any *);  // the linker's name for the kernel's entry

typedef struct {
  void (*work)(void *);
  void *launch;
} Task;

static void *run_task(void *argument) {
  Task *task = argument;
  task->work(task->launch);
  return NULL;
}

static void run_team(void (*work)(void *), void *launch, unsigned count, unsigned flags) {
  Task task = {work, launch};
  pthread_t *threads = calloc(count, sizeof *threads);
  (void)flags;
  for (unsigned at = 1; at < count; ++at) {
    if (pthread_create(&threads[at], NULL, run_task, &task) != 0) give_up("no thread could be started");
  }
  work(launch);
  for (unsigned at = 1; at < count; ++at) pthread_join(threads[at], NULL);
  free(threads);
}

// The call.

static void read_all(void *memory, size_t size) {
  if (fread(memory, 1, size, stdin) != size) give_up("the call ends early");
}

static void read_segments(Segment *segments, int64_t count, const int64_t **words) {
  for (int64_t at = 0; at < count; ++at) {
    int64_t address = *(*words)++, size = *(*words)++, place = address % kPage;
    char *memory = aligned_alloc(kPage, (place + size + kPage) / kPage * kPage);
    if (memory == NULL) give_up("there is no memory for the tensors");
    segments[at] = (Segment){address, size, memory + place};
    read_all(memory + place, size);
  }
}

static void *placed(const Segment *segments, int64_t count, int64_t address) {
  for (const Segment *segment = segments; segment < segments + count; ++segment) {
    if (segment->address <= address && address <= segment->address + segment->size) return segment->memory + (address - segment->address);
  }
  return (void *)address;
}

static Tensor *read_tensor(void *data, const int64_t **words) {
  const int64_t *fields = *words;
  Tensor *tensor = calloc(1, sizeof *tensor);
  *tensor = (Tensor){.data = data, .device = kHost, .code = fields[0], .bits = fields[1], .lanes = fields[2], .rank = fields[3]};
  tensor->extents = (int64_t *)fields + 4;
  tensor->strides = tensor->extents + tensor->rank;
  *words = tensor->strides + tensor->rank;
  return tensor;
}

int main(void) {
  int64_t size, count;
  Any result = {kNone, 0, {0}};
  answer = fdopen(dup(1), "wb");
  dup2(2, 1);
  read_all(&size, sizeof size);
  int64_t *call = malloc(size * sizeof *call);
  read_all(call, size * sizeof *call);
  const int64_t *words = call;
  Pool pool = {tile_start_openmp, run_team, *words++, NULL, tile_take, tile_give};
  int64_t segment_count = *words++;
  Segment *segments = calloc(segment_count, sizeof *segments);
  read_segments(segments, segment_count, &words);
  count = *words++;
  Any *arguments = calloc(count, sizeof *arguments);
  for (int64_t at = 0; at < count; ++at) {
    arguments[at].type = *words++;
    arguments[at].integer = *words++;
    if (arguments[at].type == kPointer || arguments[at].type == kTensor) {
      arguments[at].pointer = placed(segments, segment_count, arguments[at].integer);
    }
    if (arguments[at].type == kTensor) arguments[at].pointer = read_tensor(arguments[at].pointer, &words);
  }
  fill_pointers();
  Any record = {kPointer, 0, {.pointer = &pool}};
  if (__tvm_ffi_tile_set_pool(NULL, &record, 1, &result) == 0) tile_kernel(NULL, arguments, count, &result);
  say("done");
  for (int64_t at = 0; at < segment_count; ++at) fwrite(segments[at].memory, 1, segments[at].size, answer);
  return fclose(answer) == 0 ? 0 : 1;
}
