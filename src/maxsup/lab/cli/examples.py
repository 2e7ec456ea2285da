"""What the help of a verb ends with: commands that can be copied."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "maxsup compare --data digits --losses ce,ls,maxsup",
        "maxsup train digits_cnn loss.name=maxsup",
        "maxsup diagnose --logits logits.npy --labels labels.npy",
        "maxsup --install-completion",
    ),
    "ls": ("maxsup ls losses", "maxsup ls data --json"),
    "cp": ("maxsup cp digits_cnn mine.yaml", "maxsup cp folder_finetune mine.yaml --force"),
    "validate": ("maxsup validate mine.yaml epochs=100", "maxsup validate --data folder:photos --sheet sheet.png"),
    "train": (
        "maxsup train digits_cnn --output runs/first",
        "maxsup train digits_cnn loss.name=maxsup loss.alpha=0.2 epochs=5",
        "maxsup train folder_finetune --data folder:photos",
        "torchrun --nproc-per-node 2 --no-python maxsup train mine.yaml",
    ),
    "eval": ("maxsup eval runs/first", "maxsup eval runs/first --split val --weights best --json"),
    "analyze": (
        "maxsup analyze runs/first",
        "maxsup analyze runs/ce runs/maxsup --what collapse,calibration",
        "maxsup analyze runs/first --what probe probe.target=synthetic",
    ),
    "compare": (
        "maxsup compare --data digits",
        "maxsup compare --data folder:photos --losses ls,maxsup --seeds 6 epochs=10",
        "maxsup compare --losses ls:0.2,maxsup:0.2 --baseline ls:0.2 --dry-run",
    ),
    "report": ("maxsup report comparison", "maxsup report runs/ce runs/maxsup --baseline ce --output page"),
    "export": (
        "maxsup export runs/first --to card",
        "maxsup export runs/first --to card --dataset uoft-cs/cifar10 --output model",
    ),
    "diagnose": (
        "maxsup diagnose runs/first",
        "maxsup diagnose --logits logits.npy --labels labels.npy",
        "maxsup diagnose --model timm:resnet18 --weights w.pth --data folder:photos",
        "maxsup diagnose ce.npz ls.npz maxsup.npz",
        "maxsup diagnose timm:resnet50@a.pth timm:resnet50@b.pth --data folder:photos",
        "maxsup diagnose runs/first runs/second --ood folder:others",
    ),
    "doctor": (
        "maxsup doctor train.py",
        "maxsup doctor args.yaml",
        "maxsup doctor batch.npz --loss maxsup",
        'maxsup doctor --loss maxsup --mixup "Mixup()"',
        "maxsup doctor first.npz second.npz --accumulated",
        "maxsup doctor --device cuda",
    ),
    "explore": ("maxsup explore", "maxsup explore --output losses.html"),
    "bench": ("maxsup bench", "maxsup bench --classes 32000 --batch 512 --compile"),
    "study": ("maxsup study ls", "maxsup study show tab_alpha", "maxsup study run tab_alpha"),
    "study ls": ("maxsup study ls", "maxsup study ls --json"),
    "study show": ("maxsup study show tab_alpha", "maxsup study show tab_pre --scale tiny"),
    "study run": (
        "maxsup study run tab_alpha",
        "maxsup study run tab_pre --scale small --tune --data-root data",
        "maxsup study run --all --scale small --data-root data",
        "maxsup study run tab_alpha --scale full --dry-run",
        "maxsup study run tab_pre --launcher slurm --job partition=gpu",
    ),
    "study submit": (
        "maxsup study submit tab_alpha",
        "maxsup study submit tab_pre --launcher slurm --gpus-per-run 4",
    ),
    "study watch": ("maxsup study watch studies/tab_alpha-tiny", "maxsup study watch studies/tab_alpha-tiny --json"),
    "study released": (
        "maxsup study released imagenet/val",
        "maxsup study released imagenet/val ce=ce.ckpt ls=ls.ckpt maxsup=maxsup.ckpt",
        "maxsup study released imagenet/val --ood folder:textures --transfer cifar10",
    ),
    "study report": ("maxsup study report studies/tab_alpha-tiny", "maxsup study report comparison --json"),
}


def epilog(verb: str) -> str:
    """The examples of a verb as the end of its help; the first line keeps the lines apart."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[verb])])
