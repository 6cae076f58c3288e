"""GPU, models, engines, and whether the detector runs."""

from __future__ import annotations

from pathlib import Path

from edge.cameras import ServiceSettings
from edge.doctor.finding import Finding, Level
from edge.errors import ConfigError, EdgeError
from edge.settings import DetectSettings


def check_gpu(settings: ServiceSettings) -> list[Finding]:
    """Driver, CUDA and TensorRT. Missing, they cost speed; where a camera demands them, recording."""
    from edge.device import jetson, this_device
    from edge.nvidia.driver import NoGpu, first_gpu

    device, gpu = this_device(), first_gpu()
    demanded = [camera.name for camera in settings.cameras if camera.run.detect.require_gpu]
    findings = [Finding("ok", str(device))]
    if device.unsupported:
        findings.append(Finding("error" if demanded else "warning", device.unsupported, "update JetPack"))
    if isinstance(gpu, NoGpu):
        level: Level = "error" if demanded else "warning" if jetson() else "info"
        remedy = (
            (
                "see the findings on rights; in the service's sandbox, look for DeviceAllow and PrivateDevices in "
                "systemctl cat edge"
            )
            if jetson()
            else ""
        )
        findings.append(Finding(level, f"{gpu.why}; detectors run on the processor", remedy))
    elif device.tensorrt is None:
        findings.append(
            Finding(
                "error" if demanded else "warning",
                "TensorRT is not installed or does not load",
                "on a Jetson: apt-get install nvidia-jetpack, and make install EXTRAS=jetson",
            )
        )
    return findings


def check_models(settings: ServiceSettings) -> list[Finding]:
    """Whether the model of every camera is here; nothing is fetched."""
    from edge.models.choose import AUTO
    from edge.models.description import descriptions
    from edge.models.store import ModelStore

    known, store = descriptions(), ModelStore.default(settings.models_dir)
    findings = []
    for name in sorted({detect.model for detect in _detectors(settings)}):
        candidates = [known[each] for each in (AUTO if name == "auto" else (name,)) if each in known]
        path = next(filter(None, map(store.installed, candidates)), None)
        if candidates and path is None:
            findings.append(
                Finding(
                    "error",
                    f"model {name} is not in {store.target}",
                    f"as root: edge-models fetch{'' if name == 'auto' else ' ' + name}",
                )
            )
        elif path is None and not Path(name).is_file():
            findings.append(
                Finding("error", f"model {name} is neither known nor a file", "edge-models list shows them")
            )
        else:
            findings.append(Finding("ok", f"{name}: {path or name}"))
    return findings


def check_engines(settings: ServiceSettings) -> list[Finding]:
    """Whether engines on disk are whole and for this device; their content is read, not run."""
    from edge.device import this_device
    from edge.engines.checks import default_engine_dir
    from edge.engines.store import find_engines, load_engine
    from edge.models.choose import AUTO

    device = this_device()
    has_gpu = device.tensorrt is not None and device.compute_capability is not None
    findings = []
    wanted = {(detect.model, detect.engine_dir, detect.require_gpu) for detect in _detectors(settings)}
    for model, directory, demanded in sorted(wanted, key=str):
        place, found = directory or default_engine_dir(), 0
        level: Level = "error" if demanded else "warning"
        for name in AUTO if model == "auto" else (Path(model).stem,):
            try:
                for stored in find_engines(place, name, "tensorrt" if has_gpu else "onnxruntime"):
                    load_engine(stored, device)
                    found += 1
                    findings.append(Finding("ok", f"{stored.path} is current"))
            except ConfigError as error:
                found += 1
                findings.append(Finding(level, error.message, f"systemctl restart edge-build edge; or {error.remedy}"))
        if not found and (has_gpu or demanded):
            findings.append(
                Finding(
                    level,
                    f"no engine for {model} in {place}; detectors run on the processor",
                    "systemctl restart edge-build edge; docs/int8.md has what it does",
                )
            )
    return findings or [Finding("info", "none, and no GPU that would need one")]


def check_detector(settings: ServiceSettings) -> list[Finding]:
    """Run each model once, on the processor: what every camera falls back to."""
    from edge.inference.trial import try_model
    from edge.models.choose import AUTO, identify
    from edge.models.description import descriptions
    from edge.models.store import ModelStore

    known, store = descriptions(), ModelStore.default(settings.models_dir)
    findings = []
    for name in sorted({detect.model for detect in _detectors(settings)}):
        names = AUTO if name == "auto" else (name,)
        path = next(filter(None, (store.installed(known[each]) for each in names if each in known)), Path(name))
        if not path.is_file():
            continue  # check_models says so
        try:
            findings.append(Finding("ok", f"{name} runs on {try_model(identify(path, known))}"))
        except EdgeError as error:
            findings.append(Finding("error", error.message, error.remedy))
    return findings or [Finding("info", "no model to try")]


def _detectors(settings: ServiceSettings) -> list[DetectSettings]:
    return [camera.run.detect for camera in settings.cameras] or [DetectSettings()]
