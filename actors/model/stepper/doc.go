// Package stepper provides the actor that runs the steps of a replica on its device: the engine
// actor.
//
// Parent: the replica. Children: none. Accepts: RunStep. Answers: RunStepResult; EngineReady once
// it has started and has captured its graphs. Speaks with: the gpu actor (DeviceFailed).
//
// It owns the engine.Engine, which keeps no state between steps but its graphs. They are captured by a
// job when the engine starts; if that fails, its steps run without. A step runs as a job too. A crash
// loses the step in flight, and the replica runs it again after EngineReady; a RunStep to an
// earlier incarnation is ignored. EngineReady names the step that had begun, since a crash before a
// step says nothing about its sequences. The actor stops only after a running step has ended, so that two
// engines never write to the same KV memory. If the engine stops for good, after too many crashes
// or because the device is lost, the replica crashes too.
package stepper
