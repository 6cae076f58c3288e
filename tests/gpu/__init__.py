"""Tests on a machine with an NVIDIA GPU, TensorRT and pycuda. They need no GStreamer and no network.

On a machine with the models: ``python -m tests.gpu.graphs .gpu/graphs``. On the GPU machine, with that folder in
``$EDGE_GPU_GRAPHS`` and ``$OUT`` naming a place for plans and the timing cache:

    python -m tests.gpu.smoke $EDGE_GPU_GRAPHS $OUT             # first: one engine, a minute or two
    python -m tests.gpu.variants $EDGE_GPU_GRAPHS               # the generator, which is too large to carry
    python -m pytest tests/gpu -c tests/gpu/pytest.ini          # builds what $OUT does not hold yet
    python -m tests.gpu.eager $EDGE_GPU_GRAPHS $OUT/eager.json centerface:1 centerface:8 generator:1 generator:4
    python -m tests.gpu.speed $EDGE_GPU_GRAPHS $OUT $OUT/eager.json centerface:1 centerface:8 generator:1 generator:4

Besides TensorRT and pycuda: numpy, onnx, onnxruntime, pydantic, PyYAML, pytest; opencv-python-headless and onnxslim for
the tests of whole detectors; torch and onnx2torch for `eager`, which runs without the rest.
"""
