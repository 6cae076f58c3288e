"""Channels of one size: the same float network, and a better one in INT8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibration.collect import collect
from calibration.equalize import LARGEST_EXPONENT, channel_exponents, equalize
from calibration.observers import amax
from calibration.placement import quantisable
from calibration.quantize import calibrated_tensors, quantize
from edge.graph.names import INPUT
from tests.harness.networks import HEIGHT_PX, WIDTH_PX, network, photos, run, sqnr_db

# Decibels won with every layer in INT8; measured 6.2, 4.4, 3.1, -0.1.
GAIN_DB = {"centerface": 4, "scrfd_500m": 2.5, "retinaface_mb025": 1.5, "yunet_n": -1}


@pytest.mark.parametrize("name", GAIN_DB)
def test_same_bits_in_float_and_nearer_in_int8(name: str, shared_data: Path) -> None:
    net = network(name, shared_data)
    feeds = [{INPUT: photo[None]} for photo in photos(shared_data, WIDTH_PX, HEIGHT_PX)[:-1]]
    before = net.graph.SerializeToString()
    exponents = channel_exponents(net.graph, feeds)
    equal = equalize(net.graph, exponents)
    assert net.graph.SerializeToString() == before
    assert len(exponents) > 5
    assert all(min(each) == 0 and 0 < max(each) <= LARGEST_EXPONENT for each in exponents.values() if any(each))
    wanted = run(net.graph, net.feed, optimised=False)
    for want, got in zip(wanted, run(equal, net.feed, optimised=False), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    again = channel_exponents(equal, feeds)
    assert sum(map(sum, again.values())) < sum(map(sum, exponents.values())) / 20       # nearly nothing left to do
    ranges = amax(collect(equal, feeds, calibrated_tensors(equal)), "minmax")
    int8 = quantisable(net.graph)
    plain = sqnr_db(wanted, run(net.quantised("all"), net.feed))
    better = sqnr_db(wanted, run(quantize(equal, ranges, int8), net.feed))
    print(f"{name}: {plain:.1f} dB, then {better:.1f}")
    assert better > plain + GAIN_DB[name]


def test_what_cannot_be_scaled_is_refused(shared_data: Path) -> None:
    graph = network("yunet_n", shared_data).graph
    name = next(iter(channel_exponents(graph, [network("yunet_n", shared_data).feed])))
    for wrong in ({"nothing": [1]}, {name: [1]}):
        with pytest.raises(ValueError, match="cannot be scaled"):
            equalize(graph, wrong)


def test_a_network_without_depthwise_layers_stays(shared_data: Path) -> None:
    net = network("generator", shared_data)
    assert channel_exponents(net.graph, [net.feed]) == {}
