"""The tables that kernels compute with, fitted once, so that their digits depend on no machine.

    python -m qa.kernel_tables    writes boostrank/kernels/tables.npz

Least squares give other last digits on other processors, and take longer than a small training.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from boostrank.core.types import Array, Float64Array
from boostrank.kernels import lambda_sums
from boostrank.kernels.lambda_sums import TILE
from boostrank.kernels.soft_ranks import ABOVE, BELOW, FIRST_NODE, SLOPE_ABOVE, SLOPE_BELOW
from boostrank.kernels.tables import FILE


class PowerSum(NamedTuple):
    """The log discount as a sum of powers for the ranks 0 to `longest`, with its largest error.

    The rates are -ln z_l, and the weights c_l.
    """

    longest: int
    error: float
    rates: tuple[float, ...]
    weights: tuple[float, ...]


def _read_numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


def _read_exponents(text: str) -> tuple[complex, ...]:
    return tuple(map(complex, text.split()))


DISCOUNTS = (
    PowerSum(
        longest=128,
        error=8.9e-13,
        rates=_read_numbers(
            """
            4.04005954440351 2.42567548256962 1.60821499504137 1.09979162043145 0.759852892146649
            0.52513495185694 0.360305554178668 0.243282405187374 0.159546912497756
            0.0994558720949385 0.0567092095537416 0.0273279688804726 0.00893730073993991
            0.000344411634874868
            """
        ),
        weights=_read_numbers(
            """
            0.030958156014596 0.0656735745968804 0.0880644621572085 0.0971536344268602
            0.0957793073732723 0.0881756456745151 0.0781105381343075 0.0681232490855939
            0.0595586438225866 0.0529433400169889 0.0484559058685807 0.0465295090806467
            0.0497096426040772 0.130764391143884
            """
        ),
    ),
    PowerSum(
        longest=1024,
        error=8.9e-13,
        rates=_read_numbers(
            """
            4.04425773941104 2.43054307166824 1.61428666760373 1.10761423962982 0.770005655261231
            0.538244679622945 0.377029796368179 0.264224256907807 0.185076182864506
            0.129451967253161 0.0902908307829484 0.0626445970707521 0.0430434438065803
            0.0290649854370697 0.0190376521028971 0.0118320475910708 0.00670773672380677
            0.00319698210250226 0.00101938662605348 3.01861744705688e-05
            """
        ),
        weights=_read_numbers(
            """
            0.0308235099186564 0.0652960416627981 0.0873164023596223 0.0958800680482955
            0.093803302048728 0.0852766136293064 0.0740028568758564 0.0624623005609064
            0.0519751858000279 0.043062596303749 0.0358010411651433 0.030068701621603
            0.0256850656702753 0.0224764289655498 0.02030234536524 0.0190788420760904
            0.0188433484590973 0.019979116151103 0.0244272546787209 0.093438978639228
            """
        ),
    ),
    PowerSum(
        longest=4096,
        error=2.0e-10,
        rates=_read_numbers(
            """
            3.62932777105285 2.03974847181112 1.2624990958385 0.803609425950376 0.51645012213445
            0.333009637184905 0.214987293307246 0.138884955531716 0.0897767492277569
            0.058065666717259 0.0375618530173907 0.0242728159211501 0.0156249600807176
            0.00996102136126014 0.00621751914031453 0.00371937247205024 0.00204822793666977
            0.000954745689984054 0.000298162155294662 7.75656649313622e-06
            """
        ),
        weights=_read_numbers(
            """
            0.0464086558127308 0.0938016135542813 0.116358837209542 0.116635943719469
            0.103728246532805 0.0861477669827383 0.0690217280997833 0.0544840541812517
            0.0429436363596649 0.0340769868821735 0.0273660761591028 0.022327514568809
            0.0185865707596786 0.0158862730511355 0.0140729605847121 0.0130802748441658
            0.0129489406040001 0.0139951843077564 0.0178295981058404 0.0802991376803551
            """
        ),
    ),
    PowerSum(
        longest=1 << 20,
        error=2.8e-09,
        rates=_read_numbers(
            """
            3.47660085196028 1.89855866264133 1.13938708530936 0.701653438578831 0.435598146000146
            0.27111230265561 0.168905105688617 0.105316353860782 0.0657338977817854
            0.0410721266770698 0.0256792594075312 0.016043386929011 0.00998510427225638
            0.0061555386198227 0.0037263653233508 0.00219679016147595 0.00126466184475848
            0.000727507811472206 0.000424879447613506 0.000250411021841179 0.000148475605589159
            8.83550664391634e-05 5.25211296825431e-05 3.08789655561353e-05 1.75944072751554e-05
            9.32469238193635e-06 4.20933447774534e-06 1.26505337409742e-06 2.14919725438894e-08
            """
        ),
        weights=_read_numbers(
            """
            0.0539166633267387 0.106565300499825 0.127678455040386 0.122944056964459
            0.105081872382338 0.0842714637280486 0.0656030052186476 0.0506656061020395
            0.0392886658663065 0.030839558097938 0.0245771680480788 0.0199741193010766
            0.0165752610062394 0.0141215264419417 0.0123179501668676 0.0108939338598832
            0.00941982929843163 0.00786491143522505 0.00663376583349625 0.00574000234107315
            0.00501595683777011 0.00445363836946663 0.00402316772575925 0.00374664929790852
            0.00365658652655522 0.00383871555067605 0.00449552849004163 0.00646897752946636
            0.0493276647128693
            """
        ),
    ),
)
"""By a matrix pencil over the samples r = 0..N, N = `longest`.

For the largest N, slow nodes come from every 512th sample and the others from the residual. Beyond
that N, the error grows with the logarithm of r.
"""

EXPONENTS = _read_exponents(
    """
    2.724356+0.465335j 2.725884+1.413384j 2.741931+2.412090j 2.791186+3.506921j 2.847578+4.757417j
    2.854485+6.178769j 2.770452+7.768467j 2.566256+9.537758j 2.200972+11.530324j
    1.563285+13.866910j
    """
)

SERIES = {
    "sigmoid": _read_numbers(
        """
        0.9999999999999998 -0.9999998820025329 0.999990324209133 -0.9997599931937002
        0.9971829289836156 -0.9810824135949276 0.9193578214790583 -0.7668052328295041
        0.5188194007566104 -0.25519165621630374 0.07873681946120852 -0.011248117052656523
        """
    ),
    "slope": _read_numbers(
        """
        0.9999999999999999 -1.999998875699757 2.9999076893823284 -3.997703379505813
        4.9729086552382 -5.81668306361399 6.2096427894099575 -5.675452915257851 4.079405845731235
        -2.0863340677797297 0.6602332286177957 -0.09592590652237601
        """
    ),
    "softplus": _read_numbers(
        """
        0.9999999999999998 -0.49999998787443695 0.3333323401504792 -0.24997542874966397
        0.19971285324847027 -0.16475117236606923 0.1347723221645722 -0.10196539551467583
        0.06463884024576756 -0.03048902017257365 0.009156972774388754 -0.001285143346312666
        """
    ),
    "accurate softplus": _read_numbers(
        """
        1.0 -0.4999999999889155 0.33333333165630247 -0.24999992358216788 0.199998349705953
        -0.16664613985068205 0.14269340924867632 -0.12410443511458867 0.10759690734725727
        -0.0897774458271868 0.06827735702819067 -0.044235421441837376 0.022641149978252235
        -0.008372596104156704 0.0019579761159465824 -0.00021533861109752187
        """
    ),
    "far sigmoid": _read_numbers(
        """
        1.0000000000000009 -0.9999830088014465 0.9992523872631288 -0.9899751928467332
        0.9365548645645182 -0.7720800624916259 0.4828218982127297 -0.19138886054293472
        0.03479797464236375
        """
    ),
    "far softplus": _read_numbers(
        """
        1.0 -0.4999977637861442 0.3332351953059271 -0.24869207438398103 0.1918097837214758
        -0.1377513475859283 0.07908196053907958 -0.029792031047339716 0.0052534577968560816
        """
    ),
}
"""The coefficients of t, t^2, ... of functions of t = exp(-|u|), for `kernels.expsum`, and with fewer
terms for distant pairs; they interpolate function(t) / t at Chebyshev points.
"""

ROWS = FIRST_NODE + max(len(powers.rates) for powers in DISCOUNTS)
NEAREST = TILE + 1  # least rank difference between documents of tiles that are not neighbours

_FIT_END = 9.0  # beyond it curve and waves are below the error of the fit
_SAMPLES = 320
_PIN = 300.0  # weight of u = 0 in the least squares


def _pad_rows(rows: list[tuple[float, ...]]) -> Float64Array:
    """Return one row per discount, whose numbers start at FIRST_NODE."""
    table = np.zeros((len(rows), ROWS))
    for table_row, row in zip(table, rows, strict=True):
        table_row[FIRST_NODE : FIRST_NODE + len(row)] = row
    return table


def evaluate_curves(
    rates: Float64Array, u: Float64Array, above: bool
) -> tuple[Float64Array, Float64Array]:
    """Return each curve minus its limit, and its slope by the distance of i above j, at |distances|
    u on one side.

    Both are float64[2 + nodes, points].
    """
    upper_tail = np.array([0.5 * math.erfc(x / math.sqrt(2.0)) for x in u])
    density = np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
    one_minus_z = -np.expm1(-rates)[:, None]
    win_chance, mean = (1.0 - upper_tail, -upper_tail) if above else (upper_tail, upper_tail)
    # Above, ln(1 - (1 - z) Phi) - ln z = ln(1 + (1 - z) / z upper_tail).
    tail_factor = np.expm1(rates)[:, None] if above else -one_minus_z
    logs = np.log1p(tail_factor * upper_tail)
    values = np.vstack([upper_tail * (1.0 - upper_tail), mean, logs])
    slopes = np.vstack(
        [
            density * (1.0 - 2.0 * win_chance),
            density,
            -one_minus_z * density / (1.0 - one_minus_z * win_chance),
        ]
    )
    return values, slopes


def evaluate_waves(u: Float64Array) -> Float64Array:
    """Return the real and then the imaginary parts of exp(-e u), float64[points, 2 exponents]."""
    table = np.exp(-np.outer(u, np.array(EXPONENTS)))
    return np.hstack([table.real, table.imag])


def fit_curves() -> Float64Array:
    """Return the coefficients of exp(-e |u|), real then imaginary, float64[discounts, sides, ROWS,
    2 exponents].
    """
    u = 0.5 * _FIT_END * (1.0 - np.cos(np.linspace(0.0, math.pi, _SAMPLES)))
    sample_weight = np.where(u == 0.0, _PIN, 1.0)
    curves_at_u = np.zeros((len(DISCOUNTS), 4, ROWS, _SAMPLES))
    for curves, powers in zip(curves_at_u, DISCOUNTS, strict=True):
        rows, rates = slice(FIRST_NODE + len(powers.rates)), np.array(powers.rates)
        for above, value, slope in ((True, ABOVE, SLOPE_ABOVE), (False, BELOW, SLOPE_BELOW)):
            curves[value, rows], curves[slope, rows] = evaluate_curves(rates, u, above)
    targets = (curves_at_u * sample_weight).reshape(-1, _SAMPLES)
    coefficients = np.linalg.lstsq(
        evaluate_waves(u) * sample_weight[:, None], targets.T, rcond=1e-15
    )[0]
    return np.ascontiguousarray(coefficients.T).reshape(*curves_at_u.shape[:3], -1)


def rank_drops(m: Float64Array) -> Float64Array:
    """Return 1 / log2(1 + m) - 1 / log2(2 + m) without cancellation."""
    return math.log(2.0) * np.log1p(1.0 / (1.0 + m)) / (np.log1p(m) * np.log(2.0 + m))


def fit_drops(longest: int, columns: int) -> tuple[Float64Array, Float64Array]:
    """Return the rates -ln z and the weights that fit delta for rank differences >= `NEAREST`, by
    column.
    """
    nodes = columns - lambda_sums.FIRST_NODE
    nearest = np.arange(NEAREST, 4 * NEAREST)
    m = np.unique(np.concatenate([nearest, np.geomspace(NEAREST, longest, 300).round()]))
    rates = np.zeros(columns)
    rates[lambda_sums.FIRST_NODE :] = np.geomspace(
        1.0 / longest, min(6.0 + 0.25 * nodes, 12.0) / NEAREST, nodes
    )
    drops = rank_drops(m)
    powers = np.exp(-np.outer(m, rates))
    # Nearly relative errors, because the sum over all ranks must be right.
    powers *= drops[:, None] ** -0.9
    size = np.linalg.norm(powers, axis=0)
    powers[:, lambda_sums.DISCOUNT] = 0.0
    return rates, np.linalg.lstsq(powers / size, drops**0.1, rcond=1e-15)[0] / size


def fit_tables() -> dict[str, Array]:
    """Return the tables by name; see the modules of `boostrank.kernels` that read them."""
    rates = _pad_rows([powers.rates for powers in DISCOUNTS])
    columns = lambda_sums.COLUMNS
    drops = np.zeros((2, len(columns), max(columns)))
    for row, width in enumerate(columns):
        drops[:, row, :width] = fit_drops(lambda_sums.LENGTHS[row], width)
    return {
        "discount lengths": np.array([powers.longest for powers in DISCOUNTS]),
        "discount nodes": np.array([len(powers.rates) for powers in DISCOUNTS]),
        "discount rates": rates,
        "discount weights": _pad_rows([powers.weights for powers in DISCOUNTS]),
        "discount shares": -np.expm1(-rates),
        "rank drop rates": drops[0],
        "rank drop weights": drops[1],
        "waves": np.stack([np.real(EXPONENTS), np.imag(EXPONENTS)]),
        "curves": fit_curves(),
        **{name: np.array(numbers) for name, numbers in SERIES.items()},
    }


if __name__ == "__main__":
    np.savez_compressed(FILE, **fit_tables())
