"""A Llama-style decoder trained in plain PyTorch with tensor, data and pipeline parallelism: the model, its optimizer's state and
one step of it. train_steps.py says what the numerics are, and measures it.
"""
import hashlib
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

BUCKET_ELEMENTS = 40_000_000
DEVICE = None  # set by start()


class Device:
    """Where this process computes and in which type; --check computes in fp32 on CPUs."""

    def __init__(self, check):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.type = torch.float32 if check else torch.bfloat16
        if check:
            self.device = torch.device("cpu")
            dist.init_process_group("gloo")
        else:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", self.rank)))
            self.device = torch.device("cuda", torch.cuda.current_device())
            dist.init_process_group("nccl", device_id=self.device)


def start(check):
    """Joins the job; called once, before anything else here."""
    global DEVICE
    DEVICE = Device(check)
    return DEVICE


@torch.compile(dynamic=True)
def swiglu(gate_up):
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


@torch.compile(dynamic=True)
def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Mesh:
    """Groups of this rank. A layout of one process on a larger job runs on every rank by itself."""

    _groups = {}

    def __init__(self, run, rank, world):
        self.size = {axis: run[axis] for axis in ("tp", "dp", "pp")}
        gpus = run["tp"] * run["dp"] * run["pp"]
        if gpus not in (1, world):
            raise ValueError(f"{run['name']} fills {gpus} GPUs; there are {world}")
        place = rank if gpus > 1 else 0
        self.at = {"tp": place % run["tp"], "dp": place // run["tp"] % run["dp"],
                   "pp": place // (run["tp"] * run["dp"])}
        stride = {"tp": 1, "dp": run["tp"], "pp": run["tp"] * run["dp"]}
        self.group = {}
        for axis in stride:
            if run[axis] > 1:
                self.group[axis] = self._group(rank, world, lambda r, a=axis: r - r // stride[a] % run[a] * stride[a])
        if run["tp"] * run["pp"] > 1:  # ranks that hold one copy of the model
            self.group["model"] = self._group(rank, world, lambda r: r // run["tp"] % run["dp"])
        self.all = dist.group.WORLD if gpus > 1 else None
        self.place, self.pp_stride = place, stride["pp"]

    @staticmethod
    def _group(rank, world, key):
        """The group of the ranks with this rank's key; made by all ranks in the same order and kept for later runs."""
        members = {}
        for r in range(world):
            members.setdefault(key(r), []).append(r)
        for ranks in members.values():
            if tuple(ranks) not in Mesh._groups:
                Mesh._groups[tuple(ranks)] = dist.new_group(ranks)
        return Mesh._groups[tuple(members[key(rank)])]


class TensorParallel:
    def __init__(self, mesh, sequence_parallel):
        self.group, self.size, self.rank, self.sp = mesh.group["tp"], mesh.size["tp"], mesh.at["tp"], sequence_parallel

    def gather(self, x):
        y = x.new_empty((x.shape[0] * self.size,) + x.shape[1:])
        dist.all_gather_into_tensor(y, x.contiguous(), group=self.group)
        return y

    def scatter(self, x):
        y = x.new_empty((x.shape[0] // self.size,) + x.shape[1:])
        dist.reduce_scatter_tensor(y, x.contiguous(), group=self.group)
        return y

    def reduce(self, x):
        dist.all_reduce(x, group=self.group)
        return x


class Enter(torch.autograd.Function):
    """Before column-parallel products: identity or all-gather forward, all-reduce or reduce-scatter backward."""

    @staticmethod
    def forward(ctx, x, tp):
        ctx.tp = tp
        return tp.gather(x) if tp.sp else x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return (ctx.tp.scatter(grad) if ctx.tp.sp else ctx.tp.reduce(grad.contiguous().clone())), None


class Leave(torch.autograd.Function):
    """After row-parallel products: the reverse of Enter."""

    @staticmethod
    def forward(ctx, x, tp):
        ctx.tp = tp
        if tp.sp:
            return tp.scatter(x)
        x = x.contiguous()
        tp.reduce(x)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return (ctx.tp.gather(grad) if ctx.tp.sp else grad), None


class CrossEntropy(torch.autograd.Function):
    """Mean fp32 loss over the tokens; each tensor-parallel rank holds the vocabulary from `low` on."""

    @staticmethod
    def forward(ctx, logits, target, tp, low):
        x = logits.float()
        top = x.amax(-1)
        if tp:
            dist.all_reduce(top, op=dist.ReduceOp.MAX, group=tp.group)
        x.sub_(top[..., None])
        here = (target >= low) & (target < low + x.shape[-1])
        index = (target - low).clamp(0, x.shape[-1] - 1)
        picked = x.gather(-1, index[..., None])[..., 0] * here
        x.exp_()
        total = x.sum(-1)
        if tp:
            tp.reduce(picked)
            tp.reduce(total)
        x.div_(total[..., None])
        ctx.save_for_backward(x, index, here)
        ctx.logits_type = logits.dtype
        return (total.log() - picked).mean()

    @staticmethod
    def backward(ctx, grad):
        x, index, here = ctx.saved_tensors
        x.scatter_add_(-1, index[..., None], -here.to(x.dtype)[..., None])
        return x.mul_(grad / index.numel()).to(ctx.logits_type), None, None, None


class Weights:
    """Parameters whose values do not depend on the layout: the whole tensor is drawn from a seed of its name, then cut."""

    def __init__(self, device, dtype, mesh):
        self.device, self.dtype, self.mesh = device, dtype, mesh

    def ones(self, hidden):
        return nn.Parameter(torch.ones(hidden, dtype=self.dtype, device=self.device))

    def matrix(self, name, rows, cols, cut):
        """rows x cols of the whole matrix; `cut` = (axis, parts): each of the parts is cut along the axis over tp."""
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
        generator = torch.Generator(self.device).manual_seed(seed)
        whole = torch.empty(rows, cols, dtype=self.dtype, device=self.device).normal_(0, 0.02, generator=generator)
        axis, parts = cut
        size, at = self.mesh.size["tp"], self.mesh.at["tp"]
        if size > 1:
            pieces = [part.chunk(size, axis)[at] for part in whole.split(parts, axis)]
            whole = torch.cat(pieces, axis).contiguous()
        return nn.Parameter(whole)


class Reorder(torch.autograd.Function):
    """Rows in the order of `there`, each `copies` times to be found there; backward sums the copies of a row. `back` is the
    inverse of `there`, so that both directions are gathers."""

    @staticmethod
    def forward(ctx, x, there, back, copies):
        ctx.save_for_backward(back)
        ctx.copies = copies
        return x.index_select(0, there // copies if copies > 1 else there)

    @staticmethod
    def backward(ctx, grad):
        back, = ctx.saved_tensors
        grad = grad.index_select(0, back)
        if ctx.copies > 1:
            grad = grad.view(-1, ctx.copies, grad.shape[-1]).sum(1)
        return grad, None, None, None


@torch.compile(dynamic=True)
def weighted_sum(rows, weight):
    return (rows.view(weight.shape + rows.shape[-1:]) * weight[..., None]).sum(1)


def grouped(x, weight, ends):
    """Rows up to each of `ends` times the expert's weight; one product after the other where there is no GPU."""
    if x.is_cuda:
        return torch._grouped_mm(x, weight.transpose(-2, -1), offs=ends)
    starts = [0, *ends.tolist()]
    return torch.cat([F.linear(x[a:b], w) for a, b, w in zip(starts, starts[1:], weight)])


class Experts(nn.Module):
    """A routed MLP that drops no token: top-k of a softmax, rows sorted by expert, grouped products, weighted sum; beside it a
    shared expert where the run has one. The host never waits for the counts."""

    def __init__(self, run, weights, number):
        super().__init__()
        experts, ffn, hidden = run["experts"], run["expert_ffn"], run["hidden"]
        if run["tp"] > 1:
            raise ValueError("experts are not divided over tensor-parallel ranks")
        self.topk = run["topk"]
        self.router = weights.matrix(f"router{number}", experts, hidden, (0, [experts]))
        self.gate_up = weights.matrix(f"gate_up{number}", experts * 2 * ffn, hidden, (0, [experts * 2 * ffn]))
        self.down = weights.matrix(f"down{number}", experts * hidden, ffn, (0, [experts * hidden]))
        self.gate_up.data = self.gate_up.data.view(experts, 2 * ffn, hidden)
        self.down.data = self.down.data.view(experts, hidden, ffn)
        self.shared = run["shared_ffn"] > 0
        if self.shared:
            self.shared_gate_up = weights.matrix(f"shared_gate_up{number}", 2 * run["shared_ffn"], hidden,
                                                 (0, [2 * run["shared_ffn"]]))
            self.shared_down = weights.matrix(f"shared_down{number}", hidden, run["shared_ffn"], (1, [run["shared_ffn"]]))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        weight, expert = F.linear(rows, self.router).float().softmax(-1).topk(self.topk, -1)
        weight = (weight / weight.sum(-1, keepdim=True)).to(rows.dtype)
        sorted_experts, order = expert.flatten().sort(stable=True)
        back = order.argsort()
        ends = torch.searchsorted(sorted_experts, torch.arange(self.router.shape[0], device=x.device), right=True).int()
        routed = Reorder.apply(rows, order, back, self.topk)
        routed = grouped(swiglu(grouped(routed, self.gate_up, ends)), self.down, ends)
        y = weighted_sum(Reorder.apply(routed, back, order, 1), weight)
        if self.shared:
            y = y + F.linear(swiglu(F.linear(rows, self.shared_gate_up)), self.shared_down)
        return y.view_as(x)


class Layer(nn.Module):
    def __init__(self, run, weights, tp, number):
        super().__init__()
        self.tp, size = tp, run["tp"]
        hidden, ffn, self.head = run["hidden"], run["ffn"], run["hidden"] // run["heads"]
        self.heads, self.kv = run["heads"] // size, run["kv_heads"] // size
        q, kv = run["heads"] * self.head, run["kv_heads"] * self.head
        self.norm_attention, self.norm_mlp = weights.ones(hidden), weights.ones(hidden)
        self.qkv = weights.matrix(f"qkv{number}", q + 2 * kv, hidden, (0, [q, kv, kv]))
        self.out = weights.matrix(f"out{number}", hidden, q, (1, [q]))
        self.experts = Experts(run, weights, number) if run["experts"] else None
        if self.experts is None:
            self.gate_up = weights.matrix(f"gate_up{number}", 2 * ffn, hidden, (0, [ffn, ffn]))
            self.down = weights.matrix(f"down{number}", hidden, ffn, (1, [ffn]))

    def enter(self, x):
        return Enter.apply(x, self.tp) if self.tp else x

    def leave(self, x):
        return Leave.apply(x, self.tp) if self.tp else x

    def forward(self, x, cos, sin):
        y = self.enter(F.rms_norm(x, x.shape[-1:], self.norm_attention))
        q, k, v = F.linear(y, self.qkv).split([n * self.head for n in (self.heads, self.kv, self.kv)], -1)
        seq, batch = q.shape[:2]
        q = rotate(q.view(seq, batch, self.heads, self.head), cos, sin).permute(1, 2, 0, 3)
        k = rotate(k.view(seq, batch, self.kv, self.head), cos, sin).permute(1, 2, 0, 3)
        v = v.view(seq, batch, self.kv, self.head).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv)
        y = F.linear(y.permute(2, 0, 1, 3).reshape(seq, batch, self.heads * self.head), self.out)
        x = x + self.leave(y)
        y = self.enter(F.rms_norm(x, x.shape[-1:], self.norm_mlp))
        if self.experts is not None:
            return x + self.experts(y)
        return x + self.leave(F.linear(swiglu(F.linear(y, self.gate_up)), self.down))


class Stage(nn.Module):
    def __init__(self, run, weights, tp, mesh):
        super().__init__()
        self.run, self.tp = run, tp
        at, stages = mesh.at["pp"], mesh.size["pp"]
        self.first, self.last = at == 0, at == stages - 1
        self.low = run["vocab"] // run["tp"] * mesh.at["tp"]
        hidden, vocab = run["hidden"], run["vocab"]
        if self.first:
            self.embedding = weights.matrix("embedding", vocab, hidden, (0, [vocab]))
        count = run["layers"] // stages
        self.layers = nn.ModuleList([Layer(run, weights, tp, at * count + i) for i in range(count)])
        if self.last:
            self.norm = weights.ones(hidden)
            self.head = weights.matrix("head", vocab, hidden, (0, [vocab]))
        size = hidden // run["heads"]
        rates = 1e4 ** (-torch.arange(0, size, 2, device=weights.device).float() / size)
        angles = torch.arange(run["seq"], device=weights.device).float()[:, None] * rates
        compute = DEVICE.type
        self.cos, self.sin = (f(angles)[:, None, None].to(compute) for f in (torch.cos, torch.sin))

    def embed(self, tokens):
        if not self.tp:
            return F.embedding(tokens, self.embedding)
        local = tokens - self.low
        outside = (local < 0) | (local >= self.embedding.shape[0])
        x = F.embedding(local.clamp(0, self.embedding.shape[0] - 1), self.embedding)
        return Leave.apply(x.masked_fill(outside[..., None], 0), self.tp)

    def forward(self, x, tokens, target):
        if self.first:
            x = self.embed(tokens)
        for layer in self.layers:
            if self.run["recompute"] == "full":
                x = checkpoint(layer, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = layer(x, self.cos, self.sin)
        if not self.last:
            return x
        x = F.rms_norm(x, x.shape[-1:], self.norm)
        if self.tp:
            x = Enter.apply(x, self.tp)
        return CrossEntropy.apply(F.linear(x, self.head), target, self.tp, self.low)


class FlatState:
    """Flat weights of the compute type, flat fp32 main gradients, fp32 master weights and Adam; buckets of gradients are
    reduced over dp while the last micro-batch's backward goes on."""

    def __init__(self, stage, mesh, run):
        self.group, self.dp, self.zero, self.overlap = mesh.group.get("dp"), run["dp"], run["zero"], run["overlap"]
        self.norm_group = mesh.all if self.zero else mesh.group.get("model")
        self.tp_group = mesh.group["tp"] if run["sp"] else None
        align, start, self.buckets, members, size = 64 * self.dp, 0, [], [], 0
        parameters = list(stage.parameters())[::-1]
        for i, parameter in enumerate(parameters):
            members.append(parameter)
            size += parameter.numel()
            if size >= BUCKET_ELEMENTS or i + 1 == len(parameters):
                padded = -(-size // align) * align
                self.buckets.append((start, padded, members))
                start, members, size = start + padded, [], 0
        self.flat = torch.empty(start, dtype=DEVICE.type, device=DEVICE.device)
        self.grad = torch.zeros(start, dtype=torch.float32, device=DEVICE.device)
        self.armed, self.waiting, self.works, self.hooks, self.partial = False, {}, [], [], []
        for index, (begin, _, members) in enumerate(self.buckets):
            for parameter in members:
                end = begin + parameter.numel()
                self.flat[begin:end].copy_(parameter.data.view(-1))
                parameter.data = self.flat[begin:end].view_as(parameter.data)
                main = self.grad[begin:end].view_as(parameter.data)
                if self.tp_group is not None and main.dim() == 1:  # a norm, which saw a part of the sequence
                    self.partial.append(main)
                self.hooks.append(parameter.register_post_accumulate_grad_hook(self.accumulate(main, index)))
                begin = end
        part = mesh.at["dp"] if self.zero else 0
        share = self.dp if self.zero else 1
        self.shards = [(begin + part * (n // share), n // share) for begin, n, _ in self.buckets]
        self.master = [nn.Parameter(self.flat[o:o + n].float()) for o, n in self.shards]
        self.optimizer = torch.optim.AdamW(self.master, lr=1e-5, fused=True)

    def accumulate(self, main, bucket):
        def hook(parameter):
            main.add_(parameter.grad)
            parameter.grad = None
            if self.armed and self.dp > 1 and self.overlap:
                self.waiting[bucket] -= 1
                if self.waiting[bucket] == 0:
                    self.reduce(bucket)
        return hook

    def reduce(self, bucket):
        begin, n, _ = self.buckets[bucket]
        whole = self.grad[begin:begin + n]
        if self.zero:
            offset, m = self.shards[bucket]
            work = dist.reduce_scatter_tensor(self.grad[offset:offset + m], whole, group=self.group, async_op=True)
        else:
            work = dist.all_reduce(whole, group=self.group, async_op=True)
        self.works.append(work)

    def begin(self):
        self.grad.zero_()

    def arm(self):
        """Called before the last micro-batch's backward."""
        self.armed, self.waiting, self.works = True, {i: len(b[2]) for i, b in enumerate(self.buckets)}, []

    def finish(self):
        """Waits for the reductions, clips, updates and gathers. Norms are counted once per tensor-parallel rank in the length of
        the gradient, which changes it by less than one part in 10,000."""
        if self.dp > 1 and not self.overlap:
            for bucket in range(len(self.buckets)):
                self.reduce(bucket)
        for work in self.works:
            work.wait()
        self.armed = False
        if self.partial:
            together = torch.cat(self.partial)
            dist.all_reduce(together, group=self.tp_group)
            for main, whole in zip(self.partial, together.split([x.numel() for x in self.partial])):
                main.copy_(whole)
        square = torch.zeros((), device=DEVICE.device)
        for offset, n in self.shards:
            square += torch.linalg.vector_norm(self.grad[offset:offset + n]) ** 2
        if self.norm_group is not None:
            dist.all_reduce(square, group=self.norm_group)
        scale = (1.0 / (square.sqrt() + 1e-6)).clamp(max=1.0) / self.dp
        for parameter, (offset, n) in zip(self.master, self.shards):
            self.grad[offset:offset + n].mul_(scale)
            parameter.grad = self.grad[offset:offset + n]
        self.optimizer.step()
        for parameter, (offset, n) in zip(self.master, self.shards):
            self.flat[offset:offset + n].copy_(parameter.data)
            parameter.grad = None
        if self.zero and self.dp > 1:
            for (begin, n, _), (offset, m) in zip(self.buckets, self.shards):
                dist.all_gather_into_tensor(self.flat[begin:begin + n], self.flat[offset:offset + m], group=self.group)

    def release(self):
        for hook in self.hooks:
            hook.remove()
        for parameter in self.master:
            parameter.grad = None
            parameter.data = torch.empty(0, device=DEVICE.device)
        self.optimizer.state.clear()
        self.flat = self.grad = None
        self.buckets, self.master = [], []


class ShardedState:
    """FSDP2 over dp: fp32 parameters, bf16 gathers, fp32 reductions."""

    def __init__(self, stage, run):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        mesh = init_device_mesh(DEVICE.device.type, (run["dp"],))
        policy = MixedPrecisionPolicy(param_dtype=DEVICE.type, reduce_dtype=torch.float32)
        for layer in stage.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(stage, mesh=mesh, mp_policy=policy)
        self.stage = stage
        self.optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-5, fused=True)

    def begin(self):
        self.stage.set_requires_gradient_sync(False)

    def arm(self):
        self.stage.set_requires_gradient_sync(True)

    def finish(self):
        torch.nn.utils.clip_grad_norm_(self.stage.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def release(self):
        self.optimizer.state.clear()


def transfer(sends, receives):
    operations = [dist.P2POp(dist.isend, x, peer) for x, peer in sends if peer is not None]
    operations += [dist.P2POp(dist.irecv, x, peer) for x, peer in receives if peer is not None]
    for work in dist.batch_isend_irecv(operations) if operations else []:
        work.wait()


class Pipeline:
    """One step of 1F1B on this stage; with one stage, micro-batches one after another. Returns the mean loss (last stage)."""

    def __init__(self, run, mesh, stage, state, data):
        self.stage, self.state, self.data, self.m = stage, state, data, len(data)
        at, size = mesh.at["pp"], mesh.size["pp"]
        self.before = mesh.place - mesh.pp_stride if at > 0 else None
        self.after = mesh.place + mesh.pp_stride if at + 1 < size else None
        self.warm_up = min(size - at - 1, self.m)
        seq = run["seq"] // run["tp"] if run["sp"] else run["seq"]
        self.shape = (seq, run["mbs"], run["hidden"])
        self.held, self.loss = [], 0.0

    def empty(self, wanted):
        return torch.empty(self.shape, dtype=DEVICE.type, device=DEVICE.device) if wanted is not None else None

    def forward(self, x, index):
        y = self.stage(x, *self.data[index])
        self.held.append((x, y))
        return y

    def backward(self, grad, index):
        x, y = self.held.pop(0)
        if index == self.m - 1:
            self.state.arm()
        if self.after is None:
            self.loss += y.detach()
            (y / self.m).backward()
        else:
            y.backward(grad)
        return None if x is None else x.grad

    def receive(self):
        x = self.empty(self.before)
        transfer([], [(x, self.before)])
        return x if x is None else x.requires_grad_()

    def step(self):
        self.loss = 0.0
        self.state.begin()
        if self.before is None and self.after is None:
            for i in range(self.m):
                self.forward(None, i)
                self.backward(None, i)
        else:
            self.one_forward_one_backward()
        return self.state.finish()

    def one_forward_one_backward(self):
        for i in range(self.warm_up):
            transfer([(self.forward(self.receive(), i).detach(), self.after)], [])
        steady = self.m - self.warm_up
        x = self.receive() if steady else None
        for i in range(steady):
            y = self.forward(x, self.warm_up + i)
            grad = self.empty(self.after)
            transfer([(y.detach(), self.after)], [(grad, self.after)])
            back = self.backward(grad, i)
            x = None if i == steady - 1 else self.empty(self.before)
            transfer([(back, self.before)], [(x, self.before)] if x is not None else [])
            if x is not None:
                x.requires_grad_()
        for i in range(steady, self.m):
            grad = self.empty(self.after)
            transfer([], [(grad, self.after)])
            transfer([(self.backward(grad, i), self.before)], [])


class Job:
    """Model, state and data of one run on this rank."""

    def __init__(self, run):
        self.run, self.mesh = run, Mesh(run, DEVICE.rank, DEVICE.world)
        self.tp = TensorParallel(self.mesh, run["sp"]) if run["tp"] > 1 else None
        sharded = run["zero"] == 3
        weights = Weights(DEVICE.device, torch.float32 if sharded else DEVICE.type, self.mesh)
        self.stage = Stage(run, weights, self.tp, self.mesh)
        self.parameters = sum(p.numel() for p in self.stage.parameters())
        self.state = ShardedState(self.stage, run) if sharded else FlatState(self.stage, self.mesh, run)
        self.pipeline = Pipeline(run, self.mesh, self.stage, self.state, self.batches())

    def batches(self):
        """Micro-batches of this data-parallel rank, [(tokens, target)] of seq x mbs; their values depend on the place in the
        global batch alone."""
        run = self.run
        count = run["gbs"] // (run["dp"] * run["mbs"])
        result = []
        for i in range(count):
            seed = self.mesh.at["dp"] * count + i
            generator = torch.Generator().manual_seed(seed)
            pair = torch.randint(0, run["vocab"], (2, run["seq"], run["mbs"]), generator=generator)
            result.append((pair[0].to(DEVICE.device), pair[1].to(DEVICE.device)))
        return result

    def release(self):
        self.state.release()
        for parameter in self.stage.parameters():
            parameter.grad = None
            if self.run["zero"] != 3:
                parameter.data = torch.empty(0, dtype=parameter.dtype, device=DEVICE.device)
