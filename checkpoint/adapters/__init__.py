"""Checkpoints of training frameworks, one file each: a framework is imported by its own file only, none by this one.

encoding.py   nested state of tensors, arrays and plain values <-> what Checkpointer.save takes; no pickle
torch.py      a plain loop: model, optimizer, LR scheduler, AMP scaler, sampler, random generators
ddp.py        ranks that agree by all-reduce
fsdp.py       DTensor shards (FSDP2, tensor parallel), also for another number of ranks
lightning.py  PyTorch Lightning
hf.py         the Trainer of Hugging Face transformers
hook.py       a program in any language that saves by itself when it gets a signal (standard library only)
files.py      files that a program or a framework wrote by itself
"""
