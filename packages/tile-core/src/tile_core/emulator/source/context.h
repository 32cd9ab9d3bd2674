// Switching between fibres: a stack and the registers that a call preserves. `swapcontext` also saves the signal mask, which
// is a system call at every switch.
#pragma once

#include <stddef.h>

// TILE_USE_UCONTEXT chooses the portable way on any machine.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(TILE_USE_UCONTEXT)

extern "C" void tile_switch(void** save, void* load);

#if defined(__x86_64__)
// System V ABI: rbx, rbp, r12 to r15 survive a call.
asm(R"(
.text
.type tile_switch, @function
tile_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tile_switch, .-tile_switch
)");
constexpr size_t kSavedWords = 8, kReturnWord = 6;
#else
// AAPCS64: x19 to x30 and the low halves of v8 to v15 survive a call.
asm(R"(
.text
.type tile_switch, %function
tile_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size tile_switch, .-tile_switch
)");
constexpr size_t kSavedWords = 20, kReturnWord = 11;
#endif

namespace tile {
// The stack pointer of a fibre that has not begun, whose first switch enters `entry`.
inline void* new_context(char* stack, size_t bytes, void (*entry)()) {
  void** frame = reinterpret_cast<void**>(stack + bytes) - kSavedWords;
  for (size_t word = 0; word < kSavedWords; ++word) frame[word] = nullptr;
  frame[kReturnWord] = reinterpret_cast<void*>(entry);
  return frame;
}
inline void switch_context(void** save, void* load) { tile_switch(save, load); }
}  // namespace tile

#else

#include <ucontext.h>

namespace tile {
// A context is a `ucontext_t` at the lower end of its stack; that of the scheduler is made when it is first saved.
inline void* new_context(char* stack, size_t bytes, void (*entry)()) {
  auto* context = reinterpret_cast<ucontext_t*>(stack);
  getcontext(context);
  context->uc_stack.ss_sp = stack + sizeof(ucontext_t);
  context->uc_stack.ss_size = bytes - sizeof(ucontext_t);
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
inline void switch_context(void** save, void* load) {
  static ucontext_t first;
  if (*save == nullptr) *save = &first;
  swapcontext(static_cast<ucontext_t*>(*save), static_cast<ucontext_t*>(load));
}
}  // namespace tile

#endif
