"""Image files as they come from the wild: broken, hostile, or merely odd."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tests.unit.lab.data.made import pictures

PICTURE = Image.fromarray(pictures(1, 40, 50)[0])


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header promises more than it holds."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


JPEG, PNG = encoded(PICTURE, "JPEG"), encoded(PICTURE, "PNG")
GREY16 = Image.fromarray((np.arange(2000, dtype=np.uint16) * 32).reshape(40, 50))
FRAMES = {"save_all": True, "append_images": [PICTURE.rotate(90, expand=False)]}
FLIPPED = bytearray(PNG)
FLIPPED[len(PNG) // 2] ^= 0xFF

LEFT_OUT = {
    "empty.jpg": b"",
    "text.jpg": b"this is not an image\n" * 20,
    "noise.png": bytes(range(256)) * 4,
    "head_only.jpg": JPEG[:20],
    "truncated.jpg": JPEG[: len(JPEG) // 2],
    "truncated.png": PNG[: len(PNG) // 2],
    "flipped_bit.png": bytes(FLIPPED),
    "huge.png": png_of_size(8000, 8000),
    "larger.png": png_of_size(10_000, 10_000),
    "bomb.png": png_of_size(50_000, 50_000),
    "line.png": encoded(PICTURE.resize((2000, 1)), "PNG"),
    "postscript.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
    "float.tif": encoded(Image.fromarray(np.random.default_rng(0).random((40, 50), np.float32)), "TIFF"),
    "wide_integers.tif": encoded(Image.fromarray(np.full((40, 50), 10**6, np.int32)), "TIFF"),
}
USED = {
    "holds_png.jpg": (PNG, "named .jpg but holds PNG"),
    "holds_jpeg.png": (JPEG, "named .png but holds JPEG"),
    "holds_webp.jpeg": (encoded(PICTURE, "WEBP"), "named .jpeg but holds WEBP"),
    "cmyk.jpg": (encoded(PICTURE.convert("CMYK"), "JPEG"), "CMYK, converted to RGB"),
    "grey16.png": (encoded(GREY16, "PNG"), "16 bit, scaled to 8"),
    "grey16.tif": (encoded(GREY16, "TIFF"), "16 bit, scaled to 8"),
    "animated.png": (encoded(PICTURE, "PNG", **FRAMES), "first of 2 frames"),
    "animated.webp": (encoded(PICTURE, "WEBP", **FRAMES), "first of 2 frames"),
    "holds_gif.png": (encoded(PICTURE, "GIF", **FRAMES), "named .png but holds GIF; first of 2 frames"),
}
PLAIN = {
    "plain.jpg": JPEG,
    "plain.png": PNG,
    "grey.jpg": encoded(PICTURE.convert("L"), "JPEG"),
    "alpha.png": encoded(PICTURE.convert("RGBA"), "PNG"),
    "palette.png": encoded(PICTURE.quantize(16), "PNG", transparency=b"\x80" * 16),
    "one_pixel.png": encoded(PICTURE.resize((1, 1)), "PNG"),
    "plain.bmp": encoded(PICTURE, "BMP"),
}
FILES = LEFT_OUT | {name: content for name, (content, _) in USED.items()} | PLAIN


def write_all(folder: Path) -> list[tuple[str, int]]:
    """All files and one that is gone; path and label of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return [(str(folder / name), position % 3) for position, name in enumerate([*FILES, "gone.jpg"])]
