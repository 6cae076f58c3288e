"""Whether every secret that the configuration refers to can be read here. What they are is not kept."""

from __future__ import annotations

import os

from edge.cameras import RtspSource, SecretRef, ServiceSettings
from edge.doctor.finding import Finding
from edge.errors import EdgeError


def check_credentials(settings: ServiceSettings) -> list[Finding]:
    """One finding for each reference."""
    from edge.secrets import resolve

    findings = []
    for camera, reference in references(settings):
        what = f"{camera}: {reference.kind} {reference.name}"
        if reference.kind == "credential" and "CREDENTIALS_DIRECTORY" not in os.environ:
            findings.append(Finding("warning", f"{what} can be read by the service only", "edge-doctor --as-service"))
            continue
        try:
            resolve(reference)
        except EdgeError as error:
            remedy = error.remedy
            if reference.kind == "credential":
                remedy = (
                    f"in systemctl edit edge, under [Service]: LoadCredential={reference.name}:/etc/edge/"
                    f"credentials/{reference.name}; then systemctl restart edge"
                )
            findings.append(Finding("error", f"{what}: {error.message}", remedy))
        else:
            findings.append(Finding("ok", what))
    return findings or [Finding("ok", "none needed")]


def references(settings: ServiceSettings) -> list[tuple[str, SecretRef]]:
    """Every camera's references, by camera name."""
    sources = [(camera.name, camera.source) for camera in settings.cameras if isinstance(camera.source, RtspSource)]
    return [
        (name, each)
        for name, source in sources
        for each in (source.user, source.password)
        if isinstance(each, SecretRef)
    ]
