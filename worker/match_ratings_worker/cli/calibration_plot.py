"""Draw the plot of `calibrate`: expected and actual scores by rating gap."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from match_ratings_worker.evaluation import Calibration
from match_ratings_worker.safe_text import quote

from .exit_codes import CommandError, ExitCode

_FORMATS: Final = (".png", ".svg")


def check_plot_file(path: Path) -> None:
    """Raise CommandError for a file of another format, or without matplotlib; call it before the work."""
    if path.suffix.lower() not in _FORMATS:
        allowed = f"the file's name must end in {' or '.join(_FORMATS)}"
        raise CommandError(f"--plot: {quote(str(path), 200)} is not allowed; {allowed}", ExitCode.WRONG_INPUT)
    if importlib.util.find_spec("matplotlib") is None:
        text = "matplotlib is not installed; it comes with the extra: pip install 'match-ratings[plots]'"
        raise CommandError(f"--plot: {text}", ExitCode.WRONG_INPUT)


def draw_calibration(found: Calibration, path: Path, title: str) -> None:
    """Draw the favourite's actual scores with error bars, the expected ones, and the best-fitting curve.

    Raises CommandError if the file cannot be written.
    """
    import matplotlib as mpl  # optional: the extra "plots"

    mpl.use("Agg")
    from matplotlib import pyplot

    gaps = [item.gap for item in found.bins]
    actual = [100 * item.actual for item in found.bins]
    errors = (
        [100 * (item.actual - item.actual_low) for item in found.bins],
        [100 * (item.actual_high - item.actual) for item in found.bins],
    )
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    try:
        axes.errorbar(gaps, actual, errors, fmt="o", capsize=3, label="actual, with 95 % interval (Wilson)")
        axes.plot(gaps, [100 * item.expected for item in found.bins], "--", label="expected")
        if found.fit is not None:
            points = [max(gaps) * step / 100 for step in range(101)]
            curve = [100 / (1 + 10 ** (-gap / found.fit.divisor)) for gap in points]
            axes.plot(points, curve, ":", label=f"divisor {found.fit.divisor:.0f}, which fits best")
        axes.set(xlabel="rating gap, points", ylabel="favourite's score, %", title=title)
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise CommandError(f"--plot: {path}: {error.strerror}", ExitCode.FAILED) from None
    finally:
        pyplot.close(figure)
