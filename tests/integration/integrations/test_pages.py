"""The code in docs/integrations runs as written, in the order of the page, beside what a reader has already."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PAGES = Path(__file__).resolve().parents[3] / "docs" / "integrations"
# What a reader has: imports of the trainer, a model and data, made anew for each section. Nothing of maxsup.
OWN = {
    "accelerate": """
import torch
from accelerate import Accelerator
from torch import nn
accelerator, model = Accelerator(cpu=True), nn.Linear(4, 3)
step = [(torch.randn(2, 4), torch.tensor([0, 2])), (torch.randn(2, 4), torch.tensor([1, -100]))]
""",
    "doctor": """
import torch
from timm.data import Mixup
from torch import nn
model, images, targets = nn.Linear(4, 3), torch.randn(3, 4), torch.tensor([0, 1, 2])
criterion = val_criterion = nn.CrossEntropyLoss()
mixup = Mixup(label_smoothing=0.0, num_classes=3)
""",
    "huggingface": """
import functools
import datasets, tokenizers, transformers, trl
from transformers import Trainer, TrainingArguments
SFTConfig = functools.partial(trl.SFTConfig, bf16=False)  # its default asks for a GPU
words = {f"w{index}": index for index in range(11)} | {"<pad>": 11, "</s>": 12}
words = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="</s>")
sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=13, num_hidden_layers=1, **sizes))
data = datasets.Dataset.from_list([{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 4)
""",
    "jax": """
import jax.numpy as jnp
import optax
logits, labels, step, num_steps = jnp.eye(3), jnp.array([0, 1, 2]), 1, 10
""",
    "keras": """
import keras
import numpy as np
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
x = x_val = np.ones((6, 4), "float32")
y = y_val = np.array([0, 1, 2, 0, 1, 2])
""",
    "liger": """
import torch
from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
from torch import nn
head, hidden, target = nn.Linear(4, 3), torch.randn(2, 4, requires_grad=True), torch.tensor([0, 2])
""",
    "lightning": """
from lightning.pytorch import LightningModule, Trainer
from torch import nn
self = LightningModule()
""",
    "pytorch": """
from torch import nn
model = nn.ModuleDict({"criterion": nn.CrossEntropyLoss(label_smoothing=0.1)})
def create_criterion():
    return nn.CrossEntropyLoss(label_smoothing=0.1)
""",
    "segmentation": """
import segmentation_models_pytorch as smp
import torch
import torch.nn.functional as F
head, outputs, target = "aux", {"aux": torch.randn(2, 3, 4, 4)}, torch.zeros(2, 4, 4, dtype=torch.long)
""",
    "timm": """
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.task import ClassificationTask
from torch import nn
model = nn.Linear(4, 1000)
""",
    # The page says that this import comes first; the bases stand in for libraries too large to install.
    "trainers": """
from maxsup import MaxSupLoss
from torch import nn
import sys, types
class ClassificationModel: pass
class BaseLoss: pass
titan = {name: types.ModuleType(f"torchtitan{name}")
         for name in ("", ".components", ".components.loss", ".distributed", ".distributed.spmd_types")}
sys.modules.update({module.__name__: module for module in titan.values()})
titan[".components.loss"].BaseLoss = BaseLoss
titan[".distributed.spmd_types"].current_spmd_mesh = lambda: None
class BasePlugin: pass
class MODELS:
    register_module = staticmethod(lambda: lambda made: made)
criterion, model = MaxSupLoss(alpha=0.1), nn.Linear(4, 3)
""",
}
# Libraries that not every environment of the tests has.
OPTIONAL = {"huggingface": "trl", "liger": "triton"}


def test_every_page_with_code_is_run() -> None:
    assert {page.stem for page in PAGES.glob("*.md") if "```python" in page.read_text()} == set(OWN)


@pytest.mark.parametrize("name", OWN)
def test_the_code_of_a_page_runs_as_written(name: str, tmp_path: Path) -> None:
    if name in OPTIONAL and importlib.util.find_spec(OPTIONAL[name]) is None:
        pytest.skip(f"{OPTIONAL[name]} is not installed")
    sections = re.split(r"^## ", (PAGES / f"{name}.md").read_text(), flags=re.MULTILINE)
    blocks = [re.findall(r"^```python\n(.+?)^```", section, re.DOTALL | re.MULTILINE) for section in sections]
    (tmp_path / "page.py").write_text("\n".join(OWN[name] + "\n".join(found) for found in blocks if found))
    done = subprocess.run(
        [sys.executable, "page.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch", "TRITON_INTERPRET": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
