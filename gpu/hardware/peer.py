"""The peer: the same batched rollouts in PyTorch, to be timed beside the kernels.

    peer.py --data FOLDER [--device cuda] [--json]

The folder is what `record` writes for it: the network's weights as the kernels have
them, the routes' columns, the draws. Steps 100 to 499 run the network, the last
layer for the last position alone, in one CUDA graph for a step: the work that a
cost-only launch of the kernels does, without their bits. A line for each mode says
how long all steps took, and how far the costs are from the exact ones in the folder,
which tells that the work was done. They are not equal: products are summed in another
order, so that now and then another token is drawn, and from there on it is another rollout
of the same distribution.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

CONTEXT, CONTROL, END, VOCABULARY = 20, 100, 500, 1024
WIDTH, HALF, HEADS, HIDDEN, LAYERS, PANEL = 128, 64, 4, 512, 4, 16
GAINS = (0.195, 0.100, -0.053)
# How products are computed: the dtype of weights and activations, and TF32.
MODES = {"fp32": (torch.float32, False), "tf32": (torch.float32, True), "fp16": (torch.float16, False)}


class Network:
    """The network, from the kernels' packed weights (gpu/kernels/weights.h)."""

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
        x = torch.cat((states.to(self.head.dtype) @ self.states + self.bias, self.tokens[tokens]), 2) + self.positions
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
            mixed = functional.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=not last)
            x = x + mixed.transpose(1, 2).reshape(n, -1, WIDTH) @ layer["projection"]
            hidden = functional.gelu(norm(x, layer["norm2"]) @ layer["fc"], approximate="tanh")
            x = x + hidden @ layer["out"]
        return (norm(x[:, -1], self.norm) @ self.head).float()


class Rollouts:
    """All routes in step, with the challenge's PID controller."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        shape = json.loads((folder / "shape.json").read_text())
        n, rows = shape["routes"], shape["rows"]

        def read(name: str, dtype: torch.dtype, *shape: int) -> Tensor:
            data = bytearray((folder / name).read_bytes())
            return torch.frombuffer(data, dtype=dtype).view(shape or (-1,)).to(device)

        self.network = Network(read("weights.f32", torch.float32), dtype)
        columns = read("columns.f64", torch.float64, n, 4, rows)
        self.state_columns, self.target = columns[:, :3].float().contiguous(), columns[:, 3].contiguous()
        self.steer, self.draws = read("steer.f64", torch.float64, n, CONTROL), read("draws.f64", torch.float64, n, rows)
        self.bins = torch.linspace(-5, 5, VOCABULARY, dtype=torch.float64, device=device)
        self.window = torch.arange(-CONTEXT, 0, device=device)
        self.lataccel, self.action = self.target.clone(), torch.zeros_like(self.target)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.integral, self.error = self.target.new_zeros(n), self.target.new_zeros(n)
        exact = folder / "costs.f64"
        self.exact = read(exact.name, torch.float64) if exact.stat().st_size > 0 else None
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
            (self.action.index_select(1, at)[:, None].float(), self.state_columns.index_select(2, at)), 1
        )
        tokens = torch.bucketize(self.lataccel.index_select(1, at - 1).clamp(-5, 5), self.bins)
        probabilities = (self.network.logits(states.transpose(1, 2), tokens) / 0.8).softmax(1)
        cdf = probabilities.double().cumsum(1)
        draw = self.draws.index_select(1, t) * cdf[:, -1:]
        token = torch.searchsorted(cdf, draw, right=True).clamp(max=VOCABULARY - 1)[:, 0]
        self.lataccel.index_copy_(1, t, torch.clamp(self.bins[token], now - 0.5, now + 0.5)[:, None])
        self.step.add_(1)

    def costs(self) -> Tensor:
        lataccel, target = self.lataccel[:, CONTROL:END], self.target[:, CONTROL:END]
        tracking = (target - lataccel).square().mean(1) * 100
        return 50 * tracking + (lataccel.diff(dim=1) / 0.1).square().mean(1) * 100

    def compare(self) -> dict[str, float]:
        """How far the costs are from the exact ones."""
        costs = self.costs()
        figures = {"mean_cost": costs.mean().item()}
        if self.exact is not None:
            difference = (costs - self.exact).abs() / self.exact
            figures |= {
                "exact_mean_cost": self.exact.mean().item(),
                "routes_within_1e-6": int((difference < 1e-6).sum()),
                "median_difference": difference.median().item(),
                "largest_difference": difference.max().item(),
            }
        return figures


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
def measure(folder: Path, device: str, mode: str, runs: int) -> dict[str, object]:
    dtype, tf32 = MODES[mode]
    torch.backends.cuda.matmul.allow_tf32 = tf32
    rollouts = Rollouts(folder, device, dtype)
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
    return {
        "name": f"PyTorch {mode}, a CUDA graph for a step" if device == "cuda" else f"PyTorch {mode} on {device}",
        "version": torch.__version__,
        "routes": len(rollouts.steer),
        "steps": END - CONTROL,
        "seconds": best,
    } | rollouts.compare()


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def figures(folder: Path, device: str, runs: int) -> Iterator[dict[str, object]]:
    for mode in MODES if device == "cuda" else ["fp32"]:
        yield measure(folder, device, mode, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that record has written")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--runs", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each mode")
    args = parser.parse_args()
    for figure in figures(args.data, args.device, args.runs):
        text = (
            json.dumps(figure)
            if args.json
            else "{name} ({version}): {routes} routes in {seconds:.3f} s, mean cost {mean_cost:.3f}".format(**figure)
        )
        if not args.json and "exact_mean_cost" in figure:
            text += (
                "; exact {exact_mean_cost:.3f}, {routes_within_1e-6} routes within 1e-6,"
                " median difference {median_difference:.2g}, largest {largest_difference:.2g}"
            ).format(**figure)
        print(text, flush=True)


if __name__ == "__main__":
    main()
