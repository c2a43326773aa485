"""Operators that have circuits: those with names, those of units, groups, and others with every kind of format."""

from __future__ import annotations

from numc.numerics.operators import FMAS
from numc.numerics.units import UNITS

NAMED = [name for name, op in FMAS.items() if op.datapath.name == "fp32"]
OTHERS = [
    "fmac(e4m3)", "mac(e4m3:sr4)", "fma(a=posit8,acc=fp32)", "fmac(e5m2:sr6,datapath=exact)",
    "mac(fp16:odd,datapath=exact)", "fma(a=nf4,acc=e4m3)", "fma(a=fixed(3,4),acc=fixed(10,8))", "fmac(binary8p3)",
    "fmac(e4m3fnuz)", "fmac(e4m3fn:rdn:nan)", "fmac(e5m2:sat)", "fmac(e8m4n:rna,datapath=exact)", "fmac(e3m0)",
    "fma(a=bf16,b=mxfp4,acc=bf16x2:sr8)", "fma(a=fp16,acc=fixed(8,8):rup,datapath=exact)",
    "fma(a=bf16x2,acc=fp32,datapath=exact)", "fma(a=fp16x2,acc=fp32,products=3)",
    "fma(a=e4m3,acc=e4m3,datapath=fused(l=4,bits=5,least=-3))",
    "fmac(posit8)", "fmac(posit(6,1):sr4)", "fma(a=posit16,acc=posit16:sat,datapath=exact)", "fma(a=bf16,acc=nf4)",
    "fma(a=table(-2,-0.7,0,1,3),acc=table(-4,-1,0,0.125,6,40):rup,datapath=exact)",
]  # fmt: skip
GROUPS = [
    "highbfp",
    "fma(a=bfp(16,3,4),b=bfp(16,3,2),acc=fp32)",
    "msfp12",
    "mxfp8",
    "mxfp6",
    "mxfp4",
    "mxint8",
    "nvfp4",
]
GROUPS += ["int8", "mx(nf4,16,scale=fp16)", "mx(int4,8,scale=fp16)"]
GROUPS += [
    "fma(a=mxfp8,acc=bf16:sr4,datapath=fused(l=16,bits=20))",
    "fma(a=mx(e2m1fn,16,scale=e4m3fn),b=nvfp4,acc=fp32:rtz,datapath=fused(l=32,bits=35,least=-139,run=8))",
    "fma(a=mx(e5m2,64),b=mx(e3m2fn,64),acc=e5m10,datapath=fused(l=16,bits=10))",
    "fma(a=int12,b=int8:channel,acc=fp32,datapath=int(bits=20,saturate=1,l=4))",
    "fma(a=highbfp,acc=fp32,datapath=fmac2)",
]
ALL = [*NAMED, *OTHERS, *UNITS, *GROUPS]
