import torch, numc, sys, warnings
warnings.simplefilter("ignore")
from benchmarks.pieces import PIECES, Function
for name,shapes,make in PIECES:
    if name not in sys.argv[1].split("|"): continue
    m=(make if isinstance(make,torch.nn.Module) else Function(make)).eval()
    torch.manual_seed(0)
    inp=tuple(map(torch.randn,shapes)); p=numc.compile(m,inp); a=[x.numpy() for x in inp]
    for _ in range(20): p(*a,threads=1)
    best={}
    for _ in range(20):
        r=p.profile(*a,threads=1,repeat=10)
        for n,x in enumerate(r.rows): best[n,x.kind,x.layer]=min(best.get((n,x.kind,x.layer),1),x.seconds)
    print(name); 
    for k,s in best.items(): print("  ",k,f"{s*1e6:.1f} us")
