package backend

import "troupe/control"

// Backend implements control.Backend with a type for each kind of object.
type Backend struct {
	control.DeploymentBackend
	control.ReplicaBackend
	control.AdapterBackend
	control.GPUBackend
	control.KVBackend
	control.KeyBackend
	control.NodeBackend
	control.PlannerBackend
}

var (
	_ control.Backend           = Backend{}
	_ control.DeploymentBackend = (*DeploymentControl)(nil)
	_ control.ReplicaBackend    = (*ReplicaControl)(nil)
	_ control.AdapterBackend    = (*AdapterControl)(nil)
	_ control.GPUBackend        = (*GPUControl)(nil)
	_ control.KVBackend         = (*KVControl)(nil)
	_ control.KeyBackend        = (*KeyControl)(nil)
	_ control.NodeBackend       = (*NodeControl)(nil)
	_ control.PlannerBackend    = (*PlannerControl)(nil)
)
