"""The peer: the same batched rollouts in PyTorch, to be timed beside the kernels.

    peer.py --data FOLDER [--device cuda]

The folder is what BenchmarkPeer of ./gpu writes for it: the network's weights as the kernels have
them, the routes' columns, the draws. Steps 100 to 499 run the network, the last
layer for the last position alone, in one CUDA graph for a step: the work that a
cost-only launch of the kernels does, without their bits. A line for each mode says
how long all steps took, and how far the costs are from the exact ones in the folder,
which tells that the work was done. They are not equal: products are summed in another
order, so that now and then another token is drawn, and from there on it is another rollout
of the same distribution. So a last pass gives it the exact past at every step, and counts
how often it draws another token from that.

A mode is computed in four ways: all routes at once or in chunks whose activations stay in the
L2 cache, and with and without torch.compile.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

CONTEXT, CONTROL, END, VOCABULARY = 20, 100, 500, 1024
WIDTH, HALF, HEADS, HIDDEN, LAYERS, PANEL = 128, 64, 4, 512, 4, 16
GAINS = (0.195, 0.100, -0.053)


@dataclass(frozen=True)
class Mode:
    """How products are computed, and how long 5,000 routes were expected to take on an H200
    in the best way, before any of it had run on a GPU."""

    dtype: torch.dtype
    tf32: bool
    expected: tuple[float, float]


MODES = {
    "fp32": Mode(torch.float32, False, (1.9, 2.6)),
    "tf32": Mode(torch.float32, True, (1.0, 1.5)),
    "fp16": Mode(torch.float16, False, (0.55, 0.85)),
}
EXPECTED_ROUTES = 5000


@dataclass(frozen=True)
class Way:
    """How the network is called."""

    chunk: int  # routes at once; 0 for all
    compiled: bool

    def __str__(self) -> str:
        return (f", chunks of {self.chunk}" if self.chunk else "") + (
            ", torch.compile" if self.compiled else ""
        )


# The largest activations of 500 routes, 20 by 512 hidden columns, are 20 MB in float32. An
# H100 has 50 MB of L2.
CHUNK = 500
WAYS = [Way(0, False), Way(CHUNK, False), Way(0, True), Way(CHUNK, True)]


class Network:
    """The network, from the kernels' packed weights (gpu/internal/kernels/weights.h)."""

    def __init__(self, packed: Tensor, dtype: torch.dtype) -> None:
        self.rest = packed.to(dtype)
        self.states, self.bias = self.take(4, HALF), self.take(HALF)
        self.tokens, self.positions = self.take(VOCABULARY, HALF), self.take(CONTEXT, WIDTH)
        self.layers = [
            {
                "norm1": self.take(2, WIDTH),
                "norm2": self.take(2, WIDTH),
                "qkv": self.panels(WIDTH, 3 * WIDTH),
                "projection": self.panels(WIDTH, WIDTH),
                "fc": self.panels(WIDTH, HIDDEN),
                "out": self.panels(HIDDEN, WIDTH),
            }
            for _ in range(LAYERS)
        ]
        self.norm, self.head = self.take(2, WIDTH), self.panels(WIDTH, VOCABULARY)
        if self.rest.numel() != 0:
            raise ValueError(f"{self.rest.numel()} weights are left over")

    def take(self, *shape: int) -> Tensor:
        n = torch.Size(shape).numel()
        part, self.rest = self.rest[:n].view(shape), self.rest[n:]
        return part

    def panels(self, k: int, n: int) -> Tensor:
        """A matrix (k, n) that is packed in panels of 16 columns."""
        return self.take(n // PANEL, k, PANEL).permute(1, 0, 2).reshape(k, n).contiguous()

    def logits(self, states: Tensor, tokens: Tensor) -> Tensor:
        """The logits of the last position, from (n, 20, 4) and (n, 20)."""
        x = (
            torch.cat(
                (states.to(self.head.dtype) @ self.states + self.bias, self.tokens[tokens]), 2
            )
            + self.positions
        )
        n = x.shape[0]

        def norm(x: Tensor, w: Tensor) -> Tensor:
            return functional.layer_norm(x, (WIDTH,), w[0], w[1], 1e-5)

        def heads(x: Tensor) -> Tensor:
            return x.view(n, -1, HEADS, WIDTH // HEADS).transpose(1, 2)

        for layer in self.layers:
            last = layer is self.layers[-1]
            h = norm(x, layer["norm1"])
            if last:
                q, kv = h[:, -1:] @ layer["qkv"][:, :WIDTH], h @ layer["qkv"][:, WIDTH:]
                k, v = kv.split(WIDTH, 2)
                x = x[:, -1:]
            else:
                q, k, v = (h @ layer["qkv"]).split(WIDTH, 2)
            mixed = functional.scaled_dot_product_attention(
                heads(q), heads(k), heads(v), is_causal=not last
            )
            x = x + mixed.transpose(1, 2).reshape(n, -1, WIDTH) @ layer["projection"]
            hidden = functional.gelu(norm(x, layer["norm2"]) @ layer["fc"], approximate="tanh")
            x = x + hidden @ layer["out"]
        return (norm(x[:, -1], self.norm) @ self.head).float()


class Rollouts:
    """All routes in step, with the challenge's PID controller."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype, way: Way) -> None:
        shape = json.loads((folder / "shape.json").read_text())
        n, rows = shape["routes"], shape["rows"]

        def read(name: str, dtype: torch.dtype, *shape: int) -> Tensor:
            data = bytearray((folder / name).read_bytes())
            return torch.frombuffer(data, dtype=dtype).view(shape or (-1,)).to(device)

        network = Network(read("weights.f32", torch.float32), dtype)
        self.logits = (
            torch.compile(network.logits, dynamic=False) if way.compiled else network.logits
        )
        self.chunk = way.chunk or n
        columns = read("columns.f64", torch.float64, n, 4, rows)
        self.state_columns, self.target = (
            columns[:, :3].float().contiguous(),
            columns[:, 3].contiguous(),
        )
        self.steer, self.draws = (
            read("steer.f64", torch.float64, n, CONTROL),
            read("draws.f64", torch.float64, n, rows),
        )
        # As numpy.linspace has them; torch.linspace rounds otherwise, and a lataccel that is a
        # bin becomes the next one's token.
        bins = torch.arange(VOCABULARY, dtype=torch.float64) * (10 / (VOCABULARY - 1)) - 5
        bins[-1] = 5
        self.bins = bins.to(device)
        self.window = torch.arange(-CONTEXT, 0, device=device)
        self.lataccel, self.action = self.target.clone(), torch.zeros_like(self.target)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.integral, self.error = self.target.new_zeros(n), self.target.new_zeros(n)
        self.exact_costs = read("costs.f64", torch.float64)
        self.exact = read("lataccel.f64", torch.float64, n, rows)
        self.wrong = torch.zeros((), dtype=torch.int64, device=device)
        self.begin()

    def begin(self) -> None:
        """Goes back to step 100. Before it, lataccel is the target."""
        self.lataccel.copy_(self.target)
        self.action[:, :CONTROL] = self.steer
        errors = self.target[:, CONTEXT:CONTROL] - self.target[:, CONTEXT - 1 : CONTROL - 1]
        self.integral.copy_(errors.sum(1))
        self.error.copy_(errors[:, -1])
        self.step.fill_(CONTROL)

    def advance(self) -> None:
        """Computes one step."""
        t = self.step
        now = self.lataccel.index_select(1, t - 1)[:, 0]
        error = self.target.index_select(1, t)[:, 0] - now
        self.integral.add_(error)
        action = GAINS[0] * error + GAINS[1] * self.integral + GAINS[2] * (error - self.error)
        self.error.copy_(error)
        self.action.index_copy_(1, t, action.clamp(-2, 2)[:, None])

        at = t + 1 + self.window
        states = torch.cat(
            (
                self.action.index_select(1, at)[:, None].float(),
                self.state_columns.index_select(2, at),
            ),
            1,
        )
        tokens = torch.bucketize(self.lataccel.index_select(1, at - 1).clamp(-5, 5), self.bins)
        states = states.transpose(1, 2)
        chunks = zip(states.split(self.chunk), tokens.split(self.chunk), strict=True)
        logits = torch.cat([self.logits(s, t) for s, t in chunks])
        probabilities = (logits / 0.8).softmax(1)
        cdf = probabilities.double().cumsum(1)
        draw = self.draws.index_select(1, t) * cdf[:, -1:]
        token = torch.searchsorted(cdf, draw, right=True).clamp(max=VOCABULARY - 1)[:, 0]
        self.lataccel.index_copy_(
            1, t, torch.clamp(self.bins[token], now - 0.5, now + 0.5)[:, None]
        )
        self.step.add_(1)

    def costs(self) -> Tensor:
        lataccel, target = self.lataccel[:, CONTROL:END], self.target[:, CONTROL:END]
        tracking = (target - lataccel).square().mean(1) * 100
        return 50 * tracking + (lataccel.diff(dim=1) / 0.1).square().mean(1) * 100

    def teach(self) -> None:
        """Counts what the step before has other than the exact lataccel, and takes that."""
        t = self.step - 1
        exact = self.exact.index_select(1, t)
        self.wrong.add_((self.lataccel.index_select(1, t) != exact).sum())
        self.lataccel.index_copy_(1, t, exact)

    def compare(self) -> dict[str, float]:
        """How far the costs are from the exact ones."""
        costs = self.costs()
        difference = (costs - self.exact_costs).abs() / self.exact_costs
        return {
            "mean_cost": costs.mean().item(),
            "exact_mean_cost": self.exact_costs.mean().item(),
            "routes_within_1e-6": int((difference < 1e-6).sum()),
            "median_difference": difference.median().item(),
            "largest_difference": difference.max().item(),
        }


def graph(advance: Callable[[], None]) -> Callable[[], None]:
    """A step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            advance()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        advance()
    return captured.replay


@torch.inference_mode()
def measure(folder: Path, device: str, mode: str, way: Way, runs: int) -> dict[str, object]:
    torch.backends.cuda.matmul.allow_tf32 = MODES[mode].tf32
    rollouts = Rollouts(folder, device, MODES[mode].dtype, way)
    advance = graph(rollouts.advance) if device == "cuda" else rollouts.advance
    best = float("inf")
    for _ in range(runs):
        rollouts.begin()
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(END - CONTROL):
            advance()
        synchronize(device)
        best = min(best, time.perf_counter() - begin)
    routes, steps = len(rollouts.steer), END - CONTROL
    figures = {
        "name": (
            f"PyTorch {mode}, a CUDA graph for a step"
            if device == "cuda"
            else f"PyTorch {mode} on {device}"
        )
        + str(way),
        "version": torch.__version__,
        "routes": routes,
        "steps": steps,
        "seconds": best,
    } | rollouts.compare()
    rollouts.begin()
    for _ in range(steps):
        advance()
        rollouts.teach()
    figures |= {"wrong_tokens": int(rollouts.wrong), "of_tokens": routes * steps}
    if device == "cuda" and routes == EXPECTED_ROUTES:
        figures["expected_s"] = MODES[mode].expected
    return figures


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def figures(
    folder: Path, device: str, modes: list[str], ways: list[Way], runs: int
) -> Iterator[dict[str, object]]:
    """Each way in all modes, before the next: what a deadline cuts off is torch.compile."""
    for way in ways:
        for mode in modes:
            try:
                yield measure(folder, device, mode, way, runs)
            except (
                Exception
            ) as error:  # one way fails, of a compiler that is missing; others do not
                print(
                    f"PyTorch {mode}{way}: {type(error).__name__}: {str(error).splitlines()[0]}",
                    flush=True,
                )


def line(figure: dict[str, object]) -> str:
    """A row of the table."""
    return (
        "{name} ({version}): {routes} routes in {seconds:.3f} s, {wrong_tokens} of {of_tokens} "
        "tokens wrong;"
        " mean cost {mean_cost:.3f}, exact {exact_mean_cost:.3f}, {routes_within_1e-6} routes "
        "within 1e-6,"
        " median difference {median_difference:.2g}, largest {largest_difference:.2g}"
    ).format(**figure) + (
        "; {} to {} s were expected".format(*figure["expected_s"]) if "expected_s" in figure else ""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="what BenchmarkPeer has written")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, help="all on a GPU, fp32 on a CPU if not given"
    )
    parser.add_argument("--runs", type=int, default=3, help="of which the fastest counts")
    args = parser.parse_args()
    cuda = args.device == "cuda"
    modes = args.modes or (list(MODES) if cuda else ["fp32"])
    for figure in figures(args.data, args.device, modes, WAYS if cuda else WAYS[:1], args.runs):
        print(line(figure), flush=True)


if __name__ == "__main__":
    main()
