# The public names and their modules, which `boostrank/__init__.py` imports on first use.

from typing import Any

from boostrank.checking.user_file import load_objective as load_objective
from boostrank.core import __version__ as __version__
from boostrank.core.errors import BoostrankError as BoostrankError
from boostrank.core.errors import DataError as DataError
from boostrank.core.errors import InputError as InputError
from boostrank.core.errors import ModelError as ModelError
from boostrank.core.errors import ParameterError as ParameterError
from boostrank.core.errors import TrainingError as TrainingError
from boostrank.core.params import Param as Param
from boostrank.core.queries import QueryIndex as QueryIndex
from boostrank.data.dataset import RankingDataset as RankingDataset
from boostrank.diagnosis.training import doctor as doctor
from boostrank.export.proof import verify as verify
from boostrank.export.writing import export_model as export_model
from boostrank.files.read import read as read
from boostrank.files.read import stream as stream
from boostrank.fit.callbacks import EarlyStopping as EarlyStopping
from boostrank.fit.checkpoint import Checkpoint as Checkpoint
from boostrank.fit.from_data import train as train
from boostrank.fit.renewal import refit as refit
from boostrank.from_files import train_files as train_files
from boostrank.kernels.jit import inline as inline
from boostrank.kernels.objective import ObjectiveSpec as ObjectiveSpec
from boostrank.kernels.objective import define_objective as define_objective
from boostrank.kernels.objective import objective_kernel as objective_kernel
from boostrank.metrics import Conventions as Conventions
from boostrank.metrics import Metric as Metric
from boostrank.model.averaging import average as average
from boostrank.model.calibration import calibrate as calibrate
from boostrank.model.query_columns import WithinQuery as WithinQuery
from boostrank.model.ranking_model import RankingModel as RankingModel
from boostrank.objective.description import Objective as Objective
from boostrank.objective.mixture import Mixture as Mixture
from boostrank.objective.values import ObjectiveValues as ObjectiveValues
from boostrank.objective.values import objective_values as objective_values
from boostrank.reporting.comparison import compare as compare
from boostrank.reporting.comparison import evaluate as evaluate
from boostrank.reporting.page import report as report
from boostrank.sklearn.estimator import BoostRanker as BoostRanker
from boostrank.sklearn.splitters import QueryKFold as QueryKFold
from boostrank.sklearn.splitters import QueryTimeSplit as QueryTimeSplit
from boostrank.tuning.search import tune as tune

def __getattr__(name: str) -> Any: ...
