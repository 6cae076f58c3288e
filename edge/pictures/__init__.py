"""Still pictures in and out: JPEG, PNG, WebP, BMP and TIFF."""

from edge.pictures.still import StillPicture, read_picture, write_picture

__all__ = ["StillPicture", "read_picture", "write_picture"]
