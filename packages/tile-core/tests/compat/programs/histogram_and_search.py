import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def histogram(N, bins, block):
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), counts: T.Tensor((bins,), "int32"), largest: T.Tensor((1,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(local[X[bx * block + i]], 1)
                    T.atomic_max(largest[0], X[bx * block + i])
            for i in T.Parallel(bins):
                T.atomic_add(counts[i], local[i])

    return main


@tilelang.jit(out_idx=-1)
def lower_bound(N, M):
    @T.prim_func
    def main(table: T.Tensor((N,), "float32"), wanted: T.Tensor((M,), "float32"), place: T.Tensor((M,), "int32")):
        with T.Kernel(M, threads=1) as bx:
            low = T.alloc_var("int32", init=0)
            high = T.alloc_var("int32", init=N)
            while low < high:
                middle = (low + high) // 2
                if table[middle] < wanted[bx]:
                    low = middle + 1
                else:
                    high = middle
            place[bx] = low

    return main


@tilelang.jit(out_idx=-1)
def first_negative(M, N):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), place: T.Tensor((M,), "int32")):
        with T.Kernel(M, threads=1) as bx:
            found = T.alloc_var("int32", init=-1)
            for j in T.serial(N):
                if X[bx, j] >= 0:
                    continue
                found = j
                break
            place[bx] = found

    return main


def main():
    x = torch.randint(0, 13, (1000,), dtype=torch.int32, device="cuda")
    counts = torch.zeros(13, dtype=torch.int32, device="cuda")
    largest = torch.full((1,), -1, dtype=torch.int32, device="cuda")
    histogram(1000, 13, 256)(x, counts, largest)
    assert torch.equal(counts.cpu(), torch.bincount(x.cpu(), minlength=13).int())
    assert largest.item() == x.max().item()
    table, wanted = torch.rand(100, device="cuda").sort().values, torch.rand(17, device="cuda")
    assert torch.equal(lower_bound(100, 17)(table, wanted), torch.searchsorted(table, wanted).int())
    y = torch.randn(9, 6, device="cuda").abs()
    y[torch.arange(9), torch.arange(9) % 7 % 6] *= -1
    y[4] = y[4].abs()
    expected = torch.tensor([next((j for j in range(6) if row[j] < 0), -1) for row in y.cpu()], dtype=torch.int32)
    assert torch.equal(first_negative(9, 6)(y).cpu(), expected)


if __name__ == "__main__":
    main()
