"""Functions that printed kernels of the C++ dialects of GPUs define when they use them.

`@inline@`, `@compare_and_swap@`, `@copy_bytes@`, `@fence@` and `@warp@` stand for the words of the language (`spell`).
`@memory@` stands before the pointee of pointers to memory that threads share. In a language whose address spaces are
types, such functions are overloaded over the spaces; where these are one type, as in the emulator, its header defines
`TILE_ONE_SPACE`.
Exchanges of a warp are written over `tile_lane`, `tile_lanes` and `tile_shuffle`, which a language defines; one that
has an exchange in hardware lists that instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tile_core.printer.language import Snippet

if TYPE_CHECKING:
    from tile_core.printer.simt import Words

COMBINATIONS = {
    "sum": ("tile_sum(a, b)", ("tile_sum",)),
    "max": ("tile_max(a, b)", ("tile_max",)),
    "min": ("tile_min(a, b)", ("tile_min",)),
    "bitand": ("T(a & b)", ()),
    "bitor": ("T(a | b)", ()),
}
"""What a reduction of a warp combines two values `a` and `b` of type `T` by, and the snippets that it needs."""


def _warp_reduction(kind: str) -> Snippet:
    combined, needs = COMBINATIONS[kind]
    text = f"""
template <typename T>
@inline@ T tile_warp_reduce_{kind}(T value) {{
  return tile_warp_reduce(value, [](T a, T b) {{ return {combined}; }});
}}
"""
    return Snippet(text, needs=(*needs, "tile_warp_reduce"))


SHUFFLES = {
    "tile_shfl_sync": ("(lane & -width) + (by & width - 1)", "The value of lane `by` of each group."),
    "tile_shfl_xor": (
        "(lane ^ by) > (lane | width - 1) ? lane : lane ^ by",
        "The value of the lane that differs by the bits of `by`; groups above are out of reach.",
    ),
    "tile_shfl_up": (
        "lane - by < (lane & -width) ? lane : lane - by",
        "The value of the lane `by` below; the lowest lanes keep theirs.",
    ),
    "tile_shfl_down": (
        "lane + by > (lane | width - 1) ? lane : lane + by",
        "The value of the lane `by` above; the highest lanes keep theirs.",
    ),
}
"""Exchanges in groups of `width` lanes: the lane to read, from `lane`, `by` and `width`, and what they do."""


def _shuffle(name: str) -> Snippet:
    source, what = SHUFFLES[name]
    text = f"""
// {what}
template <typename T>
@inline@ T {name}(T value, int by, int width) {{
  const int lane = tile_lane();
  return tile_shuffle(value, {source});
}}
"""
    return Snippet(text, needs=("tile_lane", "tile_shuffle"))


SNIPPETS: Mapping[str, Snippet] = {
    "tile_sum": Snippet("""
// The sum; integers wrap.
template <typename T>
@inline@ T tile_sum(T a, T b) { return T(a + b); }
@inline@ int tile_sum(int a, int b) { return int(unsigned(a) + unsigned(b)); }
@inline@ long long tile_sum(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
}
"""),
    "tile_max": Snippet("""
// The maximum; NaN if either operand is NaN.
template <typename T>
@inline@ T tile_max(T a, T b) {
  return a > b || a != a ? a : b;
}
"""),
    "tile_min": Snippet("""
// The minimum; NaN if either operand is NaN.
template <typename T>
@inline@ T tile_min(T a, T b) {
  return a < b || a != a ? a : b;
}
"""),
    "tile_round": Snippet("""
// Halves go away from zero.
template <typename T>
@inline@ T tile_round(T x) {
  const T whole = trunc(x);
  return fabs(x - whole) >= T(0.5) ? whole + copysign(T(1), x) : whole;
}
"""),
    "tile_reinterpret": Snippet("""
// The same bits as a value of another type.
template <typename To, typename From>
@inline@ To tile_reinterpret(From value) {
  static_assert(sizeof(To) == sizeof(From), "the types have different sizes");
  To bits;
  @copy_bytes@(&bits, &value, sizeof(To));
  return bits;
}
"""),
    "tile_is_aligned": Snippet("""
@inline@ bool tile_is_aligned(@memory@const void* address, unsigned bytes) {
  return reinterpret_cast<unsigned long long>(address) % bytes == 0;
}
"""),
    "tile_load": Snippet("""
// A vector from memory: at once where the address is a multiple of its size, else element by element.
template <typename Vector, typename T>
@inline@ Vector tile_load(@memory@const T* from, bool is_aligned) {
  if (is_aligned) return *reinterpret_cast<@memory@const Vector*>(from);
  T elements[sizeof(Vector) / sizeof(T)];
#pragma unroll
  for (unsigned i = 0; i < sizeof(Vector) / sizeof(T); ++i) elements[i] = from[i];
  Vector vector;
  @copy_bytes@(&vector, elements, sizeof(Vector));
  return vector;
}
"""),
    "tile_load_shifted": Snippet("""
// A vector from memory that begins `shift` elements after an aligned one, out of that and the next; element by element
// where `shift` is negative.
template <typename Vector, typename T>
@inline@ Vector tile_load_shifted(@memory@const T* from, int shift) {
  static_assert(sizeof(Vector) == 16, "shifts are of four words");
  Vector vector;
  if (shift < 0) {
    T elements[16 / sizeof(T)];
#pragma unroll
    for (unsigned i = 0; i < 16 / sizeof(T); ++i) elements[i] = from[i];
    @copy_bytes@(&vector, elements, 16);
    return vector;
  }
  @memory@const Vector* const whole = reinterpret_cast<@memory@const Vector*>(from - shift);
  const Vector both[2] = {whole[0], whole[1]};
  unsigned words[8];
  @copy_bytes@(words, both, 32);
  const unsigned bytes = static_cast<unsigned>(shift) * sizeof(T);
  unsigned moved[4];
#pragma unroll
  for (unsigned i = 0; i < 6; ++i) words[i] = bytes & 8u ? words[i + 2] : words[i];
#pragma unroll
  for (unsigned i = 0; i < 5; ++i) words[i] = bytes & 4u ? words[i + 1] : words[i];
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned long long pair = static_cast<unsigned long long>(words[i + 1]) << 32 | words[i];
    moved[i] = static_cast<unsigned>(pair >> (bytes & 3u) * 8u);
  }
  @copy_bytes@(&vector, moved, 16);
  return vector;
}
"""),
    "tile_store": Snippet("""
// A vector to memory: at once where the address is a multiple of its size, else element by element.
template <typename Vector, typename T>
@inline@ void tile_store(@memory@T* to, const T* from, bool is_aligned) {
  if (is_aligned) {
    *reinterpret_cast<@memory@Vector*>(to) = *reinterpret_cast<const Vector*>(from);
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < sizeof(Vector) / sizeof(T); ++i) to[i] = from[i];
}
"""),
    "tile_atomic": Snippet("""
// Read-modify-write of one element, as a compare-and-swap of the word that holds it; the value before.
template <typename Word, typename T, typename Combine>
@inline@ T tile_atomic_swap(@memory@T* address, Combine combine) {
  const unsigned long long bits = reinterpret_cast<unsigned long long>(address);
  @memory@Word* const word = reinterpret_cast<@memory@Word*>(bits / sizeof(Word) * sizeof(Word));
  const unsigned shift = static_cast<unsigned>(bits % sizeof(Word)) * 8u;
  const Word mask = (~Word(0) >> 8 * (sizeof(Word) - sizeof(T))) << shift;
  Word seen = *word;
  while (true) {
    const Word part = (seen & mask) >> shift;
    T old;
    @copy_bytes@(&old, &part, sizeof(T));
    const T value = combine(old);
    Word changed = 0;
    @copy_bytes@(&changed, &value, sizeof(T));
    const Word wanted = (seen & ~mask) | changed << shift;
    const Word before = @compare_and_swap@(word, seen, wanted);
    if (before == seen) return old;
    seen = before;
  }
}
template <typename T, typename Combine>
@inline@ T tile_atomic(@memory@T* address, Combine combine) {
  if constexpr (sizeof(T) == 8) {
    return tile_atomic_swap<unsigned long long>(address, combine);
  } else {
    return tile_atomic_swap<unsigned int>(address, combine);
  }
}
"""),
    "tile_ordered": Snippet("""
// An atomic operation that other accesses of this thread do not pass, in either direction.
template <typename Operation>
@inline@ auto tile_ordered(Operation operation) {
  @fence@;
  const auto old = operation();
  @fence@;
  return old;
}
"""),
    "tile_word": Snippet("""
// The unsigned integer of a size.
template <unsigned Bytes> struct tile_word { typedef unsigned long long type; };
template <> struct tile_word<1> { typedef unsigned char type; };
template <> struct tile_word<2> { typedef unsigned short type; };
template <> struct tile_word<4> { typedef unsigned type; };
"""),
    "tile_atomic_load": Snippet(
        """
template <typename T>
@inline@ T tile_atomic_load(@memory@const T* address) {
  typedef typename tile_word<sizeof(T)>::type Word;
  const Word bits = *reinterpret_cast<@memory@const volatile Word*>(address);
  T value;
  @copy_bytes@(&value, &bits, sizeof(T));
  return value;
}
""",
        needs=("tile_word",),
    ),
    "tile_atomic_store": Snippet(
        """
template <typename T>
@inline@ T tile_atomic_store(@memory@T* address, T value) {
  typedef typename tile_word<sizeof(T)>::type Word;
  Word bits;
  @copy_bytes@(&bits, &value, sizeof(T));
  *reinterpret_cast<@memory@volatile Word*>(address) = bits;
  return value;
}
""",
        needs=("tile_word",),
    ),
    "tile_shuffle_xor": Snippet(
        """
template <typename T>
@inline@ T tile_shuffle_xor(T value, int distance) {
  return tile_shuffle(value, tile_lane() ^ distance);
}
""",
        needs=("tile_lane", "tile_shuffle"),
    ),
    "tile_warp_reduce": Snippet(
        """
// Every lane of the warp gets the combination of all; the last warp of a block may be short.
template <typename T, typename Combine>
@inline@ T tile_warp_reduce(T value, Combine combine) {
  const unsigned lanes = tile_lanes();
  for (unsigned distance = @warp@ / 2; distance != 0; distance /= 2) {
    const T other = tile_shuffle_xor(value, int(distance));
    if ((tile_lane() ^ distance) < lanes) value = combine(value, other);
  }
  return lanes == @warp@ ? value : tile_shuffle(value, 0);
}
""",
        needs=("tile_lane", "tile_lanes", "tile_shuffle", "tile_shuffle_xor"),
    ),
    **{name: _shuffle(name) for name in SHUFFLES},
    **{f"tile_warp_reduce_{kind}": _warp_reduction(kind) for kind in COMBINATIONS},
    "tile_atomic_max": Snippet(
        """
template <typename T>
@inline@ T tile_atomic_max(@memory@T* address, T value) {
  return tile_atomic(address, [=](T old) { return tile_max(old, value); });
}
""",
        needs=("tile_max", "tile_atomic"),
    ),
    "tile_atomic_min": Snippet(
        """
template <typename T>
@inline@ T tile_atomic_min(@memory@T* address, T value) {
  return tile_atomic(address, [=](T old) { return tile_min(old, value); });
}
""",
        needs=("tile_min", "tile_atomic"),
    ),
    "tile_atomic_or": Snippet(
        """
template <typename T>
@inline@ T tile_atomic_or(@memory@T* address, T value) {
  return tile_atomic(address, [=](T old) { return T(old | value); });
}
""",
        needs=("tile_atomic",),
    ),
    "tile_atomic_half": Snippet(
        """
// Replaces half of a byte: bits 0 to 3 of `value` are the new one, bit 4 says which half.
template <typename T>
@inline@ T tile_atomic_half(@memory@T* address, unsigned value) {
  const unsigned shift = value >> 4 & 1 ? 4u : 0u;
  return tile_atomic(address, [=](T old) { return T((old & ~(15u << shift)) | (value & 15u) << shift); });
}
""",
        needs=("tile_atomic",),
    ),
}
MEMORY = "@memory@"
ANY_ATOMIC_ADD = """
template <typename T>
@inline@ T tile_atomic_add(@memory@T* address, T value) {
  return tile_atomic(address, [=](T old) { return tile_sum(old, value); });
}
"""
"""The addition of any type, which needs `tile_atomic` and `tile_sum`; a language adds overloads for those that its
hardware adds in one instruction."""


def spell(text: str, words: Words) -> str:
    """A snippet's text with the words of a language."""
    for word in ("inline", "compare_and_swap", "copy_bytes", "fence", "warp"):
        text = text.replace(f"@{word}@", getattr(words, word))
    if MEMORY not in text:
        return text
    first, *others = dict.fromkeys(words.spaces.values()) or ("",)
    overloads = "".join(text.replace(MEMORY, space) for space in others)
    one = text.replace(MEMORY, first)
    return f"{one}#if !defined(TILE_ONE_SPACE)\n{overloads.lstrip()}#endif\n" if others else one
