//go:build linux

package driver

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

// Reopen implements cuda.Reopener: it has the driver destroy what is left in the broken context, which is then good again where
// the device works. The context itself stays the same, and so does host memory.
func (d *device) Reopen() error {
	fault := d.lost.Load()
	if fault == nil {
		return nil
	}
	_ = d.empty() // what a lost device says is known
	if err := d.reset(); err != nil {
		d.lost.Store(fault)
		return fmt.Errorf("GPU %d was lost and does not open again in this process: %w; restart the node, and if that is not enough reset the GPU (nvidia-smi --gpu-reset)", d.info.Index, err)
	}
	return nil
}

// reset makes the device as Open does.
func (d *device) reset() error {
	if err := d.lib.call("reset the device", d.lib.ContextReset, d.handle); err != nil {
		return err
	}
	context := out[uintptr]()
	if err := d.lib.call("open the device", d.lib.ContextRetain, address(context), d.handle); err != nil {
		return err
	}
	if err := d.lib.call("close the device", d.lib.ContextRelease, d.handle); err != nil { // once more than it was opened
		return err
	}
	if *context != d.context {
		return errors.New("the driver has given it another context")
	}
	d.lost.Store(nil)
	d.code.kernels.Clear()
	return errors.Join(d.lockAgain(), d.load(d.code.modules), d.tryBLAS())
}

var _ cuda.Reopener = (*device)(nil)
