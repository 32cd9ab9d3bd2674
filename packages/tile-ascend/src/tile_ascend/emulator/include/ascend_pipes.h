// The pipes of an AI core over the host emulator: engines that copy beside the vector unit, and the events between them.
//
// A copy lands where a wait for its pipe passes, and what it writes is poison until then. What SIMT functions touch is
// ordered by core's shadow: a wait of an engine's pipe for theirs is the fence that it asks for. What two engines touch is
// ordered here: each pipe knows how far every other one has come, by the events that it has waited for.
#pragma once

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace tile {

constexpr unsigned kPipes = PIPE_ALL, kEvents = 8, kBlockBytes = 32, kMostAccesses = 128;

struct Event {
  bool is_set = false;
  uint32_t at[kPipes] = {};  // how far the pipe that notified knew each to be
  uint32_t waited = 0;       // how far the pipe that waited last had come
};
// What a pipe has touched: bytes of a memory of the core, or of a tensor.
struct PipeAccess {
  pipe_t pipe;
  uint32_t time;
  const unsigned char *first, *end;
  bool writes;
};
struct Pipes {
  uint32_t known[kPipes][kPipes] = {};  // of each pipe, what it knows of each; of itself, how far it has come
  uint32_t done[kPipes] = {};           // of each pipe, what it knows to be done of its own
  Event events[kPipes][kPipes][kEvents];
  PipeAccess accesses[kMostAccesses];
  unsigned count = 0;
};
inline Pipes pipes;

inline bool is_first_thread() { return block.self->linear == 0; }

inline void wait_for_copies(pipe_t pipe) {
  if (pipe == PIPE_MTE2 || pipe == PIPE_ALL) copy_wait(CopyKind::kToShared, 0, false);
  if (pipe == PIPE_MTE3 || pipe == PIPE_ALL) copy_wait(CopyKind::kFromShared, 0, false);
  if (pipe == PIPE_V || pipe == PIPE_ALL) proxy_fence();
}

inline void meet_all_pipes() {
  for (const auto& from : pipes.events)
    for (const auto& to : from)
      for (const Event& event : to)
        if (event.is_set) stop(Fault::kCopy, "ends a part of the program with an event that nothing has waited for");
  pipes = Pipes{};
}

// Whether a pipe knows that an access is over; of its own, what it has waited for.
inline bool knows(unsigned pipe, const PipeAccess& access) {
  const uint32_t known = pipe == access.pipe ? pipes.done[pipe] : pipes.known[pipe][access.pipe];
  return access.time <= known;
}

// Makes room for one access more: nobody has to wait for those that all engines know of, then the oldest goes.
inline void forget_known_accesses() {
  if (pipes.count < kMostAccesses) return;
  unsigned kept = 0;
  for (unsigned at = 0; at < pipes.count; ++at) {
    const PipeAccess access = pipes.accesses[at];
    if (!knows(PIPE_MTE2, access) || !knows(PIPE_MTE3, access)) pipes.accesses[kept++] = access;
  }
  const unsigned oldest = kept == kMostAccesses ? 1 : 0;
  for (unsigned at = oldest; at < kept; ++at) pipes.accesses[at - oldest] = pipes.accesses[at];
  pipes.count = kept - oldest;
}

// A pipe has come to work: what another pipe, or earlier work of its own, does to the same bytes must be over.
inline void note_access(PipeAccess access) {
  for (unsigned at = 0; at < pipes.count; ++at) {
    const PipeAccess& other = pipes.accesses[at];
    const bool meet = access.first < other.end && other.first < access.end;
    if (meet && (access.writes || other.writes) && !knows(access.pipe, other))
      stop(Fault::kCopy, "touches what other work touches for which its pipe has not waited");
  }
  access.time = ++pipes.known[access.pipe][access.pipe];
  for (unsigned at = 0; at < pipes.count; ++at) {
    PipeAccess& other = pipes.accesses[at];
    if (other.pipe != access.pipe || other.writes != access.writes || other.first != access.first || other.end != access.end)
      continue;
    other.time = access.time;
    return;
  }
  forget_known_accesses();
  pipes.accesses[pipes.count++] = access;
}

inline void copy_box(pipe_t pipe, const Spot& tile, const Spot& tensor, unsigned rows, unsigned row_bytes,
                     uint64_t tensor_stride, uint32_t tile_stride) {
  if (!is_first_thread()) return;
  if (rows == 0 || rows > 4095 || row_bytes == 0 || row_bytes > 2097151)
    refuse_copy(tile, " a box of a size that no engine takes");
  if (shared_offset(tile.address) % kBlockBytes || (rows > 1 && tile_stride % kBlockBytes) || row_bytes % kBlockBytes)
    refuse_copy(tile, " rows that are not whole blocks of 32 bytes");
  const bool loads = pipe == PIPE_MTE2;
  const size_t last = rows - 1;
  const unsigned char* const tile_end = tile.address + last * tile_stride + row_bytes;
  const unsigned char* const tensor_end = tensor.address + last * tensor_stride + row_bytes;
  note_access({pipe, 0, tile.address, tile_end, loads});
  note_access({pipe, 0, tensor.address, tensor_end, !loads});
  copy_begin(loads ? CopyKind::kToShared : CopyKind::kFromShared, tile);
  for (unsigned row = 0; row < rows; ++row) {
    unsigned char *here = tile.address + row * size_t{tile_stride}, *there = tensor.address + row * tensor_stride;
    copy_run(loads ? here : there, loads ? there : here, row_bytes);
  }
  copy_issue();
  copy_commit(loads ? CopyKind::kToShared : CopyKind::kFromShared);
}

}  // namespace tile

inline void asc_init() {
  if (tile::is_first_thread()) tile::pipes = tile::Pipes{};
}

inline void asc_copy_gm2ub_align(const tile::Spot& tile, const tile::Spot& tensor, unsigned rows, unsigned row_bytes,
                                 unsigned left, unsigned right, bool, unsigned, uint64_t tensor_stride,
                                 uint32_t tile_stride) {
  if (left != 0 || right != 0) tile::refuse_copy(tile, " rows with padding");
  tile::copy_box(PIPE_MTE2, tile, tensor, rows, row_bytes, tensor_stride, tile_stride);
}
inline void asc_copy_ub2gm_align(const tile::Spot& tensor, const tile::Spot& tile, unsigned rows, unsigned row_bytes,
                                 unsigned, uint64_t tensor_stride, uint32_t tile_stride) {
  tile::copy_box(PIPE_MTE3, tile, tensor, rows, row_bytes, tensor_stride, tile_stride);
}

inline void asc_sync_notify(pipe_t from, pipe_t to, event_t number) {
  if (!tile::is_first_thread()) return;
  tile::Event& event = tile::pipes.events[from][to][number];
  uint32_t(&known)[tile::kPipes] = tile::pipes.known[from];
  if (event.is_set || event.waited > known[to])
    tile::stop(tile::Fault::kCopy, "notifies an event again before its wait is known to be over");
  event.is_set = true;
  memcpy(event.at, known, sizeof(known));
  ++known[from];
}
inline void asc_sync_wait(pipe_t from, pipe_t to, event_t number) {
  tile::end_part();
  if (tile::is_first_thread()) {
    tile::Event& event = tile::pipes.events[from][to][number];
    if (!event.is_set) tile::stop(tile::Fault::kDeadlock, "waits for an event that nothing notifies");
    event.is_set = false;
    uint32_t(&known)[tile::kPipes] = tile::pipes.known[to];
    for (unsigned pipe = 0; pipe < tile::kPipes; ++pipe)
      if (pipe != to && event.at[pipe] > known[pipe]) known[pipe] = event.at[pipe];
    if (event.at[to] > tile::pipes.done[to]) tile::pipes.done[to] = event.at[to];
    event.waited = ++known[to];
    tile::wait_for_copies(from);
  }
  tile::end_part();
}
// One pipe waits until its own work is done, `PIPE_ALL` until all is.
inline void asc_sync_pipe(pipe_t pipe) {
  tile::end_part();
  if (tile::is_first_thread()) {
    if (pipe == PIPE_ALL) {
      tile::meet_all_pipes();
    } else {
      tile::pipes.done[pipe] = tile::pipes.known[pipe][pipe];
    }
    tile::wait_for_copies(pipe);
  }
  tile::end_part();
}
