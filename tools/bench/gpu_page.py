"""Text of `docs/benchmarks/gpu.md` besides its tables: see `tools.bench.bench_gpu`."""

PREDICTION = """\
Written before this table was measured, and after parts of it: calls without graphs take what the emitted code takes, 0.6 to 0.8
of stock's, and kept buffers another 0.15 less. The Python emitter had been seen slower than FX, 1.15 and 1.7 times; measured in
turns both call the same functions in the same order and differ by noise, so their ratio is 0.97 to 1.03. With graphs a call is a
replay, the copy of its inputs and the guards: never above stock's reduce-overhead.

Written when each call allocated its intermediate results one by one (0.78 and 0.74 of stock for the two small rows) and 54 us of a
call with graphs were ours, of which comparing 96 addresses took 9 and copying an input that lay where it had been 9: a plan
of memory, now made by default, 0.71 and 0.64; addresses compared by native code, inputs bound as long as they stay, 0.57 and 0.65 of
reduce-overhead's host time. What remains of a matmul is torch's and cuBLAS's own (12 us of 20 a layer), so 0.55 is out of
reach where matmuls are not compiled. Training: host bound as inference is, so 0.75 of stock, and with graphs 1.0 of reduce-overhead.

First calls: in fresh caches ours took 21 to 23 s for a tiny model, stock 11. Half of the difference was the build of the launcher,
which wheels now bring, most of the rest a process that imported torch and Triton again before the first kernel was compiled,
which now happens while Inductor is imported. So at most 1.1 of stock for the tiny model and 0.9 for GPT-2. From warm caches
nothing of Inductor's compiler is imported any more: 0.85.

Written when a matmul was a call of torch, and before its kernels were launched again without it: a matmul is then one or two launches,
3 to 5 us in place of 14, so that the two small rows take 0.35 and 0.45 of stock without graphs, and a training step 0.75.

Written later, before the row of split matmuls: GPT-2 small on 64 tokens, in a row, takes 0.89 of the row without.

Written when the memory of a training step had been measured in one process for each side (MiB reserved by torch's allocator): eager 2796, stock
2750, reduce-overhead 2982, ours 2872 with either emitter, with graphs 3466. The 300 MiB between Python and FX had been what earlier sides of the
same process left behind. Now backward's recording takes the memory of what forward saved, some 300 MiB, and a copied argument's buffer of 98 MiB ends at its last
use: with graphs 3080, give or take 80.

Written when that was 3190, stock's reduce-overhead 3012, and before the calls that precede a recording had memory apart: the optimizer's state now lies as
it does for stock, in some 2040 instead of 2260, beside 930 of recordings (stock 946 to 976). So 2970, give or take 40, and never above stock's; the
time as before, 1.00.

Written when that had been 3064, 2094 of them outside of recordings' memory, since a workspace of cuBLAS that compilation had left lay between the optimizer's
state, and 970 in it, where the gradient of the tied weight is two storages of 147 until a matmul is added to the first. Now workspaces are given back
before warm-ups, and the matmul is added where the gradient lies: 2870, give or take 50, and 1 % less time.

Written when fresh first calls took 1.13, 1.07, 0.85 and 0.88 of stock (2.17 s for the tiny model), and before ours left out patterns of
attention for graphs without, the hash of Triton's library (0.35 s here, on both sides), and imports of what absent devices need; read its
sources for a key in a quarter of the time; compiled kernels while passes and emission go on; and had bytecode in this measurement. On a
machine with two processors the main thread of the tiny model takes 1.16 s in place of 1.81 (stock 1.70). So 0.75 for the tiny model,
0.9 for the 48 layers, 0.75 for GPT-2. Written after that was measured (0.55 to 0.68, 0.78 and 0.79), and before equal replacements of patterns
were traced once (48 times 7 ms for the 48 layers), compilers ended at the same time, and the first kernel waited less for a server that is not there
yet: 0.62 where files have been read before, 0.7 and 0.75.

Written before attention without dropout was launched again as matmuls are, 20 us less a layer forward and 40 backward: GPT-2 small without graphs
0.50 of stock, and a training step 0.70. Written after a first look at rows without torch.compile, or with its option that guards no modules: captured,
the two small rows take 1.03 of a bare replay until finished, the host 0.2 and 0.3 of reduce-overhead's time; with the option 0.5."""

OUTCOME = """\
With graphs, in a row, a call takes 1.00 to 1.02 of a bare replay. One call until finished takes 1.02 and 1.01 of it where a captured program is called, and the
host 0.09 and 0.15 of reduce-overhead's time. Through torch.compile it is 1.18 and 1.16, and 0.57 and 0.67: before any backend is asked,
guards and autograd's wrappers take 34 and 85 us (below), the same for both sides. With torch's option that guards no modules, which is given to both
sides, the host takes 0.46 and 0.40 of reduce-overhead's time (0.48 and 0.41 without it on that side). No row through torch.compile is above
reduce-overhead. 8 x 256 tokens, captured, take 1.2 of it: a capture measures nothing, so that it pads no matmuls. Split matmuls take 0.90 of the
row without in a row, 0.89 until finished.

Without graphs 0.46 and 0.50 of stock, as predicted for GPT-2 small (0.48 and 0.56 in the run before attention was launched again; 0.53 in one
after it, on another host: its kernels take the device some 900 us where each is launched on its own, 703 in a graph, whatever the host does). Python
and FX take the same.

Training: equal losses; 0.71 of stock without graphs (0.76 before; 0.70 predicted), with 33 MiB less allocated at the worst moment and 74 more reserved, of
which a workspace of matmuls takes 64. With graphs 0.99 of reduce-overhead, and 166 MiB less reserved, since warm-ups have a pool of their
own (196) and the gradient of the tied weight is one storage (168), as predicted; 2706 against 2726 with expandable segments. More is allocated, since
recordings hold what they return, which torch's trees do not count.

First calls: below the prediction. In fresh caches 0.56 for the tiny model (0.68 in a run whose files had been read before, 1.39 s against 2.04), 0.75 for
the 48 layers, 0.74 and 0.77 for GPT-2 (1.13, 1.07, 0.85 and 0.88 before); 0.2 s of the difference was the compilation of our own modules to bytecode, which
pip does when it installs, but not where it is told not to. Before kernels were compiled in the process itself until the process is there that compilers
are forked from, the two small models took 3.7 and 2.1 of stock. Pausing Python's collector meanwhile moves its work to the end and saves nothing.
What was left besides torch's own work: for the tiny model 0.29 s of waiting for its kernel and 0.1 s of imports, for the 48 layers 0.4 s of passes,
verification and emission. From warm caches 0.64 to 0.77.

The host's parts are differences of whole calls: what lies within the noise of these may be negative."""
