package backend

import (
	"context"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
)

// GPUControl implements control.GPUBackend.
type GPUControl struct {
	System  *actor.ActorSystem
	Members func() []*messages.Member // live members
}

// QuarantineGpu implements control.Backend.
func (g *GPUControl) QuarantineGpu(ctx context.Context,
	req *messages.QuarantineGpuRequest) (*messages.GpuStatus, error) {
	at, err := g.actorOf(req)
	if err != nil {
		return nil, err
	}
	answer, err := query.At[*messages.QuarantineGpuResult](ctx, g.System, at,
		&messages.QuarantineGpu{RequestId: supervise.RuntimeOf(g.System).ID(), Detail: req.GetDetail()})
	return query.Outcome(answer.GetQuarantined(), answer.GetRefused(), err)
}

// ReleaseGpu implements control.Backend.
func (g *GPUControl) ReleaseGpu(ctx context.Context, req *messages.ReleaseGpuRequest) (*messages.GpuStatus, error) {
	at, err := g.actorOf(req)
	if err != nil {
		return nil, err
	}
	answer, err := query.At[*messages.ReleaseGpuResult](ctx, g.System, at,
		&messages.ReleaseGpu{RequestId: supervise.RuntimeOf(g.System).ID(), Untested: req.GetUntested()})
	return query.Outcome(answer.GetReleased(), answer.GetRefused(), err)
}

// EvictWeights implements control.Backend.
func (g *GPUControl) EvictWeights(ctx context.Context, req *messages.EvictWeightsRequest) (*messages.GpuStatus, error) {
	at, err := g.actorOf(req)
	if err != nil {
		return nil, err
	}
	answer, err := query.At[*messages.EvictWeightsResult](ctx, g.System, at,
		&messages.EvictWeights{RequestId: supervise.RuntimeOf(g.System).ID(), Model: req.GetModel()})
	return query.Outcome(answer.GetEvicted(), answer.GetRefused(), err)
}

// SwitchGpu implements control.Backend.
func (g *GPUControl) SwitchGpu(ctx context.Context, gpu control.GPU, s *messages.SwitchGpu) error {
	at, err := g.actorOf(gpu)
	if err != nil {
		return err
	}
	answer, err := query.At[*messages.SwitchGpuResult](ctx, g.System, at, s)
	_, err = query.Outcome(answer.GetBegun(), answer.GetRefused(), err)
	return err
}

// OverruleSwitch implements control.Backend.
func (g *GPUControl) OverruleSwitch(ctx context.Context, gpu control.GPU, id, replica string) error {
	at, err := g.actorOf(gpu)
	if err != nil {
		return err
	}
	_, err = query.At[*messages.OverruleSwitchResult](ctx, g.System, at,
		&messages.OverruleSwitch{RequestId: supervise.RuntimeOf(g.System).ID(), Switch: id, Replica: replica})
	return err
}

// SwitchOf implements control.Backend.
func (g *GPUControl) SwitchOf(ctx context.Context, gpu control.GPU) (*messages.GpuSwitch, error) {
	at, err := g.actorOf(gpu)
	if err != nil {
		return nil, err
	}
	s, err := query.At[*messages.GpuStatus](ctx, g.System, at, &messages.GetGpu{})
	return s.GetSwitch(), err
}

// ParkWeights implements control.Backend.
func (g *GPUControl) ParkWeights(model string) {
	for _, m := range g.Members() {
		for _, gpu := range m.GetGpus() {
			g.System.Root.Send(actor.NewPID(m.GetAddress(), query.GPU(gpu)),
				&messages.EvictWeights{Model: model, Park: true})
		}
	}
}

// actorOf returns the actor of a GPU on any node.
func (g *GPUControl) actorOf(req control.GPU) (*actor.PID, error) {
	for _, m := range g.Members() {
		if m.GetName() == req.GetNode() && slices.Contains(m.GetGpus(), req.GetName()) {
			return actor.NewPID(m.GetAddress(), query.GPU(req.GetName())), nil
		}
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("no %s on node %q; gpus.list names all GPUs", req.GetName(), req.GetNode()))
}
