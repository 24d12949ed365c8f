package kvblock

import (
	"cmp"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Device string // the GPU whose memory this is, such as "gpu-0"
}

// Props returns the props of the HBM tier of one GPU.
func Props(cfg Config) *actor.Props {
	return supervise.Props(func() actor.Actor { return &hbm{Config: cfg} })
}

type hbm struct {
	Config
	leases map[string]*leaseBlocks // by lease
}

// leaseBlocks is what is known about the blocks of one lease.
type leaseBlocks struct {
	blocks     uint32
	blockBytes uint64
	resident   map[uint32][]byte // block index -> hash
}

func (h *hbm) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		h.leases = make(map[string]*leaseBlocks)
	case *messages.AdoptBlocks:
		h.onAdopt(ctx, msg)
	case *messages.BlocksChanged:
		h.onChanged(msg)
	case *messages.BlocksResized:
		if a, ok := h.leases[msg.GetLease()]; ok {
			a.resize(msg.GetBlocks())
		}
	case *messages.BlocksReleased:
		delete(h.leases, msg.GetLease())
	case *messages.GetTier:
		ctx.Respond(h.status())
	default:
		supervise.Unknown(ctx, "hbm")
	}
}

func (h *hbm) onAdopt(ctx actor.Context, msg *messages.AdoptBlocks) {
	a := h.lease(msg.GetLease())
	if a.blockBytes != 0 && a.blockBytes != msg.GetBlockBytes() {
		clear(a.resident) // the lease has a new block layout
	}
	a.blockBytes = msg.GetBlockBytes()
	a.resize(msg.GetBlocks())
	resident := make([]*messages.Block, 0, len(a.resident))
	for _, index := range slices.Sorted(maps.Keys(a.resident)) {
		resident = append(resident, &messages.Block{Index: index, Hash: a.resident[index]})
	}
	ctx.Respond(&messages.AdoptBlocksResult{
		RequestId: msg.GetRequestId(),
		Outcome: &messages.AdoptBlocksResult_Adopted{Adopted: &messages.BlocksAdopted{
			Lease: msg.GetLease(), Resident: resident,
		}},
	})
}

// resize sets the number of blocks and forgets those beyond it.
func (a *leaseBlocks) resize(blocks uint32) {
	a.blocks = blocks
	maps.DeleteFunc(a.resident, func(index uint32, _ []byte) bool { return index >= blocks })
}

func (h *hbm) onChanged(msg *messages.BlocksChanged) {
	a := h.lease(msg.GetLease())
	for _, index := range msg.GetEvicted() {
		delete(a.resident, index)
	}
	for _, b := range msg.GetCommitted() {
		a.resident[b.GetIndex()] = b.GetHash()
	}
}

// lease returns the blocks of a lease. After a crash of this actor nothing is known about them.
func (h *hbm) lease(name string) *leaseBlocks {
	a, ok := h.leases[name]
	if !ok {
		a = &leaseBlocks{resident: make(map[uint32][]byte)}
		h.leases[name] = a
	}
	return a
}

func (h *hbm) status() *messages.TierStatus {
	s := &messages.TierStatus{Name: "hbm", Device: h.Device}
	for name, a := range h.leases {
		s.Leases = append(s.Leases, &messages.TierLease{
			Lease: name, Blocks: a.blocks, Resident: uint32(len(a.resident)), BlockBytes: a.blockBytes,
		})
	}
	slices.SortFunc(s.Leases, func(a, b *messages.TierLease) int { return cmp.Compare(a.GetLease(), b.GetLease()) })
	return s
}
