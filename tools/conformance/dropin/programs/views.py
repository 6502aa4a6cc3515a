"""Views of inputs, of results, and of each other."""

from __future__ import annotations

import torch

from tools.conformance.dropin.table import rand, table


def _cube(n: int) -> tuple[torch.Tensor]:
    return (rand(n, 2, 6),)


def _part(n: int) -> tuple[torch.Tensor]:
    return (rand(n + 2, 6)[1:-1, 1:],)


def _complex(n: int) -> tuple[torch.Tensor]:
    return (rand(n, 3, dtype=torch.complex64),)


PROGRAMS = table(
    itself=lambda x: x,
    itself_twice=lambda x: (x, x),
    alias=lambda x: (x.view(x.shape), x[:], x.detach()),
    flat=lambda x: x.view(-1),
    flat_and_sum=lambda x: (x.view(-1), x.sum()),
    transpose=lambda x: x.t(),
    transpose_twice=lambda x: x.t().t(),
    permute=(lambda x: x.permute(2, 0, 1), _cube),
    movedim=(lambda x: x.movedim(0, -1) * 2, _cube),
    select=lambda x: x[0],
    select_last=lambda x: x[-1],
    select_column=lambda x: x[:, 1],
    slice=lambda x: x[1:3],
    slice_step=lambda x: x[::2],
    slice_negative=lambda x: x[-2:],
    slice_columns=lambda x: x[:, 1:-1],
    narrow=lambda x: x.narrow(0, 1, 2),
    unsqueeze=lambda x: x[None, :, None],
    squeeze=lambda x: x[None].squeeze(0),
    expand=lambda x: x[:1].expand(3, 6),
    expand_result=lambda x: (x[:1] + 1).expand(3, 6),
    broadcast_to=lambda x: torch.broadcast_to(x[0], (2, 6)),
    diagonal=lambda x: x.diagonal(),
    diagonal_offset=lambda x: x.diagonal(1) + 1,
    unbind=lambda x: x.unbind(1),
    split=lambda x: x.split(2, 1),
    chunk_results=lambda x: (x + 1).chunk(2),
    unfold=lambda x: x.unfold(1, 3, 2),
    as_strided=lambda x: x.as_strided([2, 2], [1, 1], 0),
    as_strided_sum=lambda x: x.as_strided([2, 2], [2, 1]) + 1,
    as_strided_of_part=(lambda x: x.as_strided([2, 2], [1, 1], 0), _part),
    as_strided_of_result=lambda x: (x + 1).as_strided([3, 2], [2, 1], 1),
    part_flat=(lambda x: x.reshape(-1), _part),
    part_contiguous=(lambda x: x.contiguous(), _part),
    part_transposed=(lambda x: x.t() + 1, _part),
    view_dtype=lambda x: x.view(torch.int32),
    view_smaller_dtype=lambda x: x.view(torch.int16) + 1,
    view_bytes_back=lambda x: x.view(torch.uint8).view(torch.float32) * 2,
    view_as_real=(torch.view_as_real, _complex),
    view_as_complex=lambda x: torch.view_as_complex(x.view(-1, 3, 2)),
    real_part=(lambda x: x.real, _complex),
    imaginary_part=(lambda x: x.imag + 1, _complex),
    conjugate=(lambda x: x.conj(), _complex),
    conjugate_sum=(lambda x: x.conj() + x, _complex),
    adjoint=(lambda x: x.mH, _complex),
    two_views_of_a_view=lambda x: (lambda u: (u, u.permute([0])))(x.view(-1)),
    two_views_of_a_result=lambda x: (lambda u: (u, u.permute([0])))((x + 1).view(-1)),
    result_and_its_view=lambda x: (lambda u: (u, u.view(-1)))(x + 1),
    views_of_one_result=lambda x: (lambda u: (u[1:], u[:-1]))(x * 2),
    view_of_input_and_result=lambda x: (x[1:], x[1:] + 1),
    flatten=(lambda x: x.flatten(1), _cube),
    unflatten=lambda x: x.unflatten(1, (2, 3)),
    view_as=lambda x: x.view_as(x),
    swapaxes=(lambda x: x.swapaxes(0, 2), _cube),
    ravel=lambda x: x.t().ravel(),
    detach=lambda x: x.detach() + 1,
    contiguous=lambda x: x.contiguous(),
    clone=lambda x: x.clone(),
    to_same=lambda x: x.to(torch.float32),
    to_other=lambda x: x.to(torch.float64),
    channels_last=lambda x: x.view(-1, 3, 2, 1).contiguous(memory_format=torch.channels_last),
    empty_view=lambda x: x[:0],
    roll=lambda x: x.roll(1, 0),
    flip=lambda x: x.flip(0),
    tensor_of_inputs=lambda x: torch.stack([x[0], x[1]]),
    grad_view=(lambda x: x.t()[1:].sum(), lambda n: (rand(n, 6, grad=True),)),
    grad_expand=(lambda x: x.expand(3, x.shape[0]).sum(), lambda n: (rand(n, grad=True),)),
    grad_returned_view=(lambda x: (x * 2)[1:], lambda n: (rand(n, 6, grad=True),)),
    grad_multi_view=(lambda x: (x * 2).unbind(0)[0], lambda n: (rand(4, n, grad=True),)),
)
