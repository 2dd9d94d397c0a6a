"""The stub container runtime's images (CRI v1, ImageService)."""

from __future__ import annotations

import cri_pb2 as pb
import cri_pb2_grpc as rpc

from harness.pods import IMAGE


class StubImages(rpc.ImageServiceServicer):
    """Every image is there already."""

    def ListImages(self, request, context):  # noqa: N802
        return pb.ListImagesResponse(images=[_image(IMAGE)])

    def ImageStatus(self, request, context):  # noqa: N802
        return pb.ImageStatusResponse(image=_image(request.image.image))

    def PullImage(self, request, context):  # noqa: N802
        return pb.PullImageResponse(image_ref=request.image.image)

    def RemoveImage(self, request, context):  # noqa: N802
        return pb.RemoveImageResponse()

    def ImageFsInfo(self, request, context):  # noqa: N802
        return pb.ImageFsInfoResponse(image_filesystems=[_FILE_SYSTEM])


def _image(name: str) -> pb.Image:
    return pb.Image(id=name, repo_tags=[name], size=1)


_FILE_SYSTEM = pb.FilesystemUsage(
    timestamp=1,
    fs_id=pb.FilesystemIdentifier(mountpoint="/"),
    used_bytes=pb.UInt64Value(value=1),
    inodes_used=pb.UInt64Value(value=1),
)
