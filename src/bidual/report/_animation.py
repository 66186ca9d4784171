"""A learned controller in motion: one episode as an animated GIF, of links that swing or a point that flies."""

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from bidual._base.errors import ProblemError
from bidual._base.types import Episode
from bidual.report._canvas import BLUE, DARK, ORANGE, SHADE, create_figure
from bidual.report._control import Run, draw_place, extract_run
from bidual.tasks import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

_SIDE, _DOTS = 3.3, 90  # inches, dots per inch
_COLOURS = 48  # of a palette that all frames share: shades of a few
_LEAST, _MOST = (
    40,
    200,
)  # milliseconds of a frame: viewers slow down faster ones; slower is no motion
_REST = 1200  # milliseconds of the last frame, before it begins again
_FRAMES = 150  # at most: of longer episodes every second step is drawn, or every third
_TRAIL = 12  # steps that stay visible

Show = Callable[[int], None]  # moves the animated artists to a step


def can_animate(picture: Picture) -> bool:
    """Return whether a picture has parts to animate: an angle, a place in the plane, or joints."""
    return any(part is not None for part in (picture.angle, picture.plane, picture.joints))


def control_animation(episode: Episode, picture: Picture, title: str = "") -> bytes:
    """Animate an episode, as the bytes of a GIF; the same episode gives the same bytes.

    Args:
        episode: of vectors and controls, as `ControlEnvironment.collect` gives it.
        picture: how an observation is drawn; it must have an angle, a plane or joints.
        title: over the picture.
    """
    if not can_animate(picture):
        raise ProblemError(
            "only an angle, a place in the plane or joints can be shown in motion, and the picture has none of them: "
            "draw the episode over time with bd.report.control_figure"
        )
    run = extract_run(episode, picture)
    figure = create_figure(_SIDE, _SIDE)
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=9)
    draw = _draw_linkage if picture.joints is not None else _draw_pendulum if picture.plane is None else _draw_flight
    show = draw(axes, run, picture)
    every = -(-len(run[0]) // _FRAMES)
    # The last step is always drawn; those before it at equal distances.
    steps = range((len(run[0]) - 1) % every, len(run[0]), every)
    return _encode_gif(_draw_frames(figure, axes, show, steps), every * picture.seconds)


def _draw_pendulum(axes: "Axes", run: Run, picture: Picture) -> Show:
    """Draw a rod on a hinge with the trail of its weight, and a bar for the torque; angle 0 is upright."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Circle

    s, u = run
    assert picture.angle is not None  # or there is nothing to swing
    cosine, sine = picture.angle
    places = np.stack([-s[:, sine], s[:, cosine]], axis=1)  # angles grow against the clock
    axes.add_patch(Circle((0, 0), 1.0, facecolor="none", edgecolor=SHADE, linewidth=1.0))
    fading = [(*to_rgb(BLUE), 0.5 * (1 - i / _TRAIL)) for i in range(_TRAIL)]
    trail = axes.scatter(np.zeros(_TRAIL), np.zeros(_TRAIL), s=16, c=fading, linewidths=0, animated=True)
    (rod,) = axes.plot([], [], color=DARK, linewidth=6, solid_capstyle="round", animated=True)
    (weight,) = axes.plot([], [], "o", color=BLUE, markersize=15, animated=True)
    axes.plot(0, 0, "o", color="white", markeredgecolor=DARK, markersize=7, zorder=5, animated=True)
    # A positive torque turns against the clock: to the left at the top.
    force = _draw_bar(axes, -u[:, 0], picture.controls[0])
    clock = axes.text(-1.25, 1.25, "", fontsize=9, va="top", animated=True)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.55, 1.3), aspect="equal")
    axes.axis("off")

    def show(h: int) -> None:
        x, y = places[h]
        rod.set_data([0, x], [0, y])
        weight.set_data([x], [y])
        trail.set_offsets(places[np.maximum(h - 1 - np.arange(_TRAIL), 0)])
        force(h)
        clock.set_text(_write_time(h, picture))

    return show


def _draw_bar(axes: "Axes", u: Float[np.ndarray, "length"], name: str) -> Show:
    """Draw a bar below, to the left or the right, in shares of the largest control of the episode."""
    most = max(float(np.abs(u).max(initial=0.0)), 1e-12)
    axes.plot([0.5, 0.5], [0.045, 0.095], color=DARK, linewidth=0.8, transform=axes.transAxes)
    axes.text(0.5, 0.02, name, fontsize=8, ha="center", va="center", transform=axes.transAxes)
    style: dict[str, Any] = {"color": ORANGE, "linewidth": 7, "solid_capstyle": "butt", "transform": axes.transAxes}
    (bar,) = axes.plot([], [], animated=True, **style)

    def show(h: int) -> None:
        share = 0.0 if h >= len(u) else u[h] / most
        bar.set_data([0.5, 0.5 + 0.38 * share], [0.07, 0.07])

    return show


def _draw_linkage(axes: "Axes", run: Run, picture: Picture) -> Show:
    """Draw rods from joint to joint on the ground of the picture, and the trail of the last joint."""
    from matplotlib.colors import to_rgb

    s, u = run
    assert picture.joints is not None  # or there are no rods
    joints = np.asarray(picture.joints(s.T)).transpose(2, 0, 1)
    ground = np.reshape(np.array(picture.ground), (-1, 2))
    axes.plot(*ground.T, color=DARK, linewidth=1.2, alpha=0.6)
    fading = [(*to_rgb(BLUE), 0.5 * (1 - i / _TRAIL)) for i in range(_TRAIL)]
    trail = axes.scatter(np.zeros(_TRAIL), np.zeros(_TRAIL), s=16, c=fading, linewidths=0, animated=True)
    (rods,) = axes.plot([], [], color=DARK, linewidth=5, solid_capstyle="round", animated=True)
    (hinges,) = axes.plot([], [], "o", color="white", markeredgecolor=DARK, markersize=7, animated=True)
    (tip,) = axes.plot([], [], "o", color=BLUE, markersize=13, animated=True)
    force = _draw_bar(axes, u[:, 0], picture.controls[0])
    low, high = _fit_square(np.concatenate([joints.reshape(-1, 2), ground]))
    room = 0.15 * (high[1] - low[1])  # for the bar
    axes.set(xlim=(low[0], high[0]), ylim=(low[1] - room, high[1]), aspect="equal")
    axes.axis("off")
    clock = axes.text(0.02, 0.98, "", fontsize=9, va="top", transform=axes.transAxes, animated=True)

    def show(h: int) -> None:
        rods.set_data(joints[h].T)
        hinges.set_data(joints[h, :-1].T)
        tip.set_data(joints[h, -1:].T)
        trail.set_offsets(joints[np.maximum(h - 1 - np.arange(_TRAIL), 0), -1])
        force(h)
        clock.set_text(_write_time(h, picture))

    return show


def _draw_flight(axes: "Axes", run: Run, picture: Picture) -> Show:
    """Draw a point with the path behind it and the push on it, among obstacles and goal."""
    s, u = run
    assert picture.plane is not None  # or there is nowhere to fly
    places, m = s[:, picture.plane], u.shape[1]
    draw_place(axes, s[0], picture)
    (path,) = axes.plot([], [], color=BLUE, linewidth=1.8, animated=True)
    (push,) = axes.plot([], [], color=ORANGE, linewidth=3, solid_capstyle="round", animated=True)
    (point,) = axes.plot([], [], "o", color=BLUE, markersize=9, animated=True)
    low, high = _fit_frame(places, picture)
    reach = 0.15 * float((high - low).max()) / max(float(np.abs(u).max(initial=0.0)), 1e-12)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    clock = axes.text(0.02, 0.98, "", fontsize=9, va="top", transform=axes.transAxes, animated=True)

    def show(h: int) -> None:
        path.set_data(places[: h + 1].T)
        point.set_data(places[h][:, None])
        pushed = m == 2 and h < len(u)
        push.set_data(np.stack([places[h], places[h] + reach * u[h]]).T if pushed else [[], []])
        clock.set_text(_write_time(h, picture))

    return show


def _fit_frame(
    places: Float[np.ndarray, "k 2"], picture: Picture
) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2"]]:
    """Return a square that holds the path, the goal and all discs, with a margin."""
    points = [places, *(np.array([[x - r, y - r], [x + r, y + r]]) for x, y, r in picture.discs)]
    points += [] if picture.goal is None else [np.array([picture.goal])]
    return _fit_square(np.concatenate(points))


def _fit_square(points: Float[np.ndarray, "k 2"]) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2"]]:
    low, high = points.min(axis=0), points.max(axis=0)
    middle, side = (low + high) / 2, 1.2 * max(float((high - low).max()), 1e-6)
    return middle - side / 2, middle + side / 2


def _write_time(h: int, picture: Picture) -> str:
    return f"step {h}" if picture.seconds == 1.0 else f"{h * picture.seconds:.2f} s"


def _draw_frames(
    figure: "Figure", axes: "Axes", show: Show, steps: range
) -> Iterable[UInt8[np.ndarray, "height width 3"]]:
    """Yield the frames: still parts are drawn once, and moving ones over them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(_DOTS)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    moving = sorted((one for one in axes.get_children() if one.get_animated()), key=lambda one: one.get_zorder())
    for h in steps:
        show(h)
        canvas.restore_region(still)
        for one in moving:
            axes.draw_artist(one)
        yield np.array(canvas.buffer_rgba())[..., :3]


def _encode_gif(frames: Iterable[UInt8[np.ndarray, "height width 3"]], seconds: float) -> bytes:
    """Encode the frames as a GIF with one palette."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ProblemError(
            f"an animation needs Pillow, which Matplotlib brings along: pip install pillow ({error})"
        ) from None
    images = [Image.fromarray(frame) for frame in frames]
    palette = _choose_palette(images)
    frames_to_save = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    each = round(min(max(1000 * seconds, _LEAST), _MOST))
    file = io.BytesIO()
    times = [each] * (len(frames_to_save) - 1) + [_REST]
    frames_to_save[0].save(
        file, "GIF", save_all=True, append_images=frames_to_save[1:], duration=times, loop=0, optimize=False
    )
    return file.getvalue()


def _choose_palette(images: "list[Image]") -> "Image":
    """Choose colours from a few frames together: a palette for every frame would flicker, and take room."""
    from PIL import Image

    few = [images[i] for i in sorted({0, len(images) // 3, len(images) // 2, len(images) - 1})]
    width, height = few[0].size
    sheet = Image.new("RGB", (width, height * len(few)))
    for i, image in enumerate(few):
        sheet.paste(image, (0, i * height))
    return sheet.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
