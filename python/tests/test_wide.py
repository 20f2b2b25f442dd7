"""Networks of the size that people use are what NumPy says, by the rule of ARITHMETIC.md."""

import itertools

import lockstep
import numpy as np
import pytest

F32 = np.float32


def fma(a, b, c):
    """a·b + c in float32, rounded once: through float64, rounded to odd."""
    product, c = a.astype(np.float64) * b.astype(np.float64), np.asarray(c, dtype=np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)  # what total lacks, exactly
    bits = np.atleast_1d(total).view(np.int64)
    to_odd = np.where((error > 0) == (total > 0), 1, -1)
    odd = bits + np.where((error != 0) & (bits % 2 == 0), to_odd, 0)
    return odd.view(np.float64).astype(F32)


def tanh(u):
    z = np.clip(u, F32(-9), F32(9))
    y, hexadecimal = z * z, float.fromhex
    p = [
        "-0x1.3e4b8p-52",
        "0x1.c266fcp-43",
        "-0x1.7a6ffep-34",
        "0x1.b80082p-25",
        "0x1.f28694p-17",
        "0x1.4e1bdap-11",
        "0x1.40b3b8p-8",
    ]
    q = ["0x1.41a7bp-20", "0x1.f12bacp-14", "0x1.29540ap-9", "0x1.40b3bap-8"]

    def polynomial(words):
        value = np.full_like(z, hexadecimal(words[0]))
        for word in words[1:]:
            value = fma(value, y, np.full_like(z, hexadecimal(word)))
        return value

    return polynomial(p) * z / polynomial(q)


def forward(x, weights, biases, activation):
    for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
        y = b
        for first in range(0, len(x), 256):
            chain = np.zeros_like(b)
            for k in range(first, min(first + 256, len(x))):
                chain = fma(np.broadcast_to(x[k], b.shape), w[:, k], chain)
            y = y + chain
        if i < len(activation):
            y = tanh(y) if activation[i] == "tanh" else np.where(y > 0, y, F32(0))
        x = y
    return x


def softplus(z):
    z = z.astype(np.float64)
    return (np.log1p(np.exp(-abs(z))) + np.maximum(z, 0)).astype(F32)


@pytest.fixture(scope="module")
def winner():
    """1.5 million numbers, as the leaderboard's best networks have."""
    rng = np.random.default_rng(43)
    sees = [f"target[{k}]-lataccel[-1]" for k in range(50)] + [
        f"lataccel[{-k}]/3" for k in range(1, 81)
    ]
    sees += (
        [f"action[{-k}]" for k in range(1, 81)]
        + [f"v[{k}]-20/15" for k in range(-80, 50)]
        + ["observation[14]", "a[3]-1e-09/1e-05", "roll[0]-1e+30/-1e+29", "v[1]-0.5/1e+06"]
    )
    sizes = [len(sees), *[512] * 6, 2]
    weights = [
        rng.uniform(-1.7, 1.7, (o, i)).astype(F32) / F32(i**0.5)
        for i, o in itertools.pairwise(sizes)
    ]
    biases = [rng.uniform(-0.2, 0.2, o).astype(F32) for o in sizes[1:]]
    return sees, weights, biases, ["tanh", "relu"] * 3


def test_the_winner_is_what_numpy_says(sim, short_routes, winner):
    sees, weights, biases, activation = winner
    actor = lockstep.Network(weights, biases, activation=activation, sees=sees)
    assert (
        1_450_000 < sum(w.size + b.size for w, b in zip(weights, biases, strict=True)) < 1_550_000
    )
    data = sim.collect(actor, short_routes[:1], samples=1, seed=7)
    observed = data.observe()
    assert observed.shape == (len(data.places), len(sees))
    step = 3
    lataccel, action = data.lataccel[0, :step][::-1], data.action[0, :step][::-1]
    assert (
        observed[step, 50 : 50 + step].tobytes()
        == np.clip((lataccel / 3).astype(F32), -5, 5).tobytes()
    )
    assert observed[step, 130 : 130 + step].tobytes() == action.astype(F32).tobytes()
    assert not observed[step, 130 + step : 210].any()  # before step 100 it had not acted
    for k in (0, step):
        assert (
            softplus(forward(observed[k], weights, biases, activation)).tobytes()
            == data.softplus[0, k].tobytes()
        )


def test_it_is_exported(sim, short_routes, winner, tmp_path):
    pytest.importorskip("onnxruntime")
    sees, weights, biases, activation = winner
    actor = lockstep.Network(weights, biases, activation=activation, sees=sees)
    actor.export(tmp_path / "winner.py")
    actor.save(tmp_path / "winner.onnx")
    result = sim.rollout(
        short_routes[:1], [actor, tmp_path / "winner.py", tmp_path / "winner.onnx"], trajectory=True
    )
    assert result.errors == {}
    assert result.action[0].tobytes() == result.action[1].tobytes() == result.action[2].tobytes()


@pytest.mark.parametrize(
    ("why", "arguments"),
    [
        ("want one of observation, action, lataccel", {"sees": ["speed[0]"]}),
        ("lataccel has -80 to -1", {"sees": ["lataccel[0]"]}),
        ("want texts", {"sees": "target[0]"}),
        ("want texts", {"sees": []}),
        ('want "relu" or "tanh"', {"sees": ["v[0]"], "activation": "gelu"}),
        ("or one for each layer but the last", {"sees": ["v[0]"], "activation": ["relu", "relu"]}),
    ],
)
def test_what_is_not_known_is_refused(why, arguments):
    with pytest.raises(ValueError, match=why):
        lockstep.Network([[[0.1]] * 3, [[0.1] * 3] * 2], [[0] * 3, [0] * 2], **arguments)
