# The public names and their modules, which `boostrank/reporting/__init__.py` imports on first use.

from boostrank.reporting.card import Card as Card
from boostrank.reporting.comparison import Comparison as Comparison
from boostrank.reporting.comparison import compare as compare
from boostrank.reporting.comparison import compare_runs as compare_runs
from boostrank.reporting.comparison import evaluate as evaluate
from boostrank.reporting.explanation import Why as Why
from boostrank.reporting.explanation import why as why
from boostrank.reporting.page import Report as Report
from boostrank.reporting.page import report as report
from boostrank.reporting.sections.importance import Importance as Importance
from boostrank.reporting.sections.importance import importance as importance
from boostrank.reporting.studies import ObjectiveComparison as ObjectiveComparison
from boostrank.reporting.studies import compare_objectives as compare_objectives
from boostrank.reporting.studies import measure_noise as measure_noise
