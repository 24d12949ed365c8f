package kvblock

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Device string // the GPU whose memory this is, such as "gpu-0"
}

// Props returns the props of the HBM tier of one GPU.
func Props(cfg Config) *actor.Props {
	return supervise.Props(func() actor.Actor { return &hbm{Config: cfg, contents: kv.NewContents()} })
}

type hbm struct {
	Config
	contents *kv.Contents
}

func (h *hbm) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Restarting, *actor.Stopping, *actor.Stopped:
	case *messages.AdoptBlocks:
		h.onAdopt(ctx, msg)
	case *messages.BlocksChanged:
		h.onChanged(msg)
	case *messages.BlocksResized:
		h.contents.Resize(msg.GetLease(), int(msg.GetBlocks()))
	case *messages.BlocksReleased:
		h.contents.Release(msg.GetLease())
	case *messages.GetTier:
		ctx.Respond(h.status())
	default:
		supervise.Unknown(ctx, "hbm")
	}
}

func (h *hbm) onAdopt(ctx actor.Context, msg *messages.AdoptBlocks) {
	resident := h.contents.Adopt(msg.GetLease(), int(msg.GetBlocks()), msg.GetBlockBytes())
	adopted := &messages.BlocksAdopted{Lease: msg.GetLease(), Resident: make([]*messages.Block, len(resident))}
	for i, b := range resident {
		adopted.Resident[i] = &messages.Block{Index: uint32(b.Block), Hash: resident[i].Hash[:]}
	}
	ctx.Respond(&messages.AdoptBlocksResult{
		RequestId: msg.GetRequestId(), Outcome: &messages.AdoptBlocksResult_Adopted{Adopted: adopted},
	})
}

func (h *hbm) onChanged(msg *messages.BlocksChanged) {
	evicted := make([]int32, len(msg.GetEvicted()))
	for i, block := range msg.GetEvicted() {
		evicted[i] = int32(block)
	}
	committed := make([]kv.Committed, len(msg.GetCommitted()))
	for i, b := range msg.GetCommitted() {
		committed[i] = kv.Committed{Block: int32(b.GetIndex()), Hash: kv.Hash(b.GetHash())}
	}
	h.contents.Change(msg.GetLease(), evicted, committed)
}

func (h *hbm) status() *messages.TierStatus {
	s := &messages.TierStatus{Name: "hbm", Device: h.Device}
	for _, l := range h.contents.Stats() {
		s.Leases = append(s.Leases, &messages.TierLease{
			Lease: l.Lease, Blocks: uint32(l.Blocks), Resident: uint32(l.Resident), BlockBytes: l.BlockBytes,
		})
	}
	return s
}
