//go:build linux

package driver

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

// Reopen implements cuda.Reopener. The driver destroys the content of the broken context, which is
// then usable again if the device works. The context itself and host memory stay the same.
func (d *device) Reopen() error {
	fault := d.lost.Load()
	if fault == nil {
		return nil
	}
	_ = d.empty() // the error of a lost device is known
	if err := d.reset(); err != nil {
		d.lost.Store(fault)
		return fmt.Errorf(
			"GPU %d is lost and cannot be reopened in this process: %w; restart the node, and if that fails reset "+
				"the GPU (nvidia-smi --gpu-reset)",
			d.info.Index,
			err,
		)
	}
	return nil
}

// reset sets the device up like Open.
func (d *device) reset() error {
	if err := d.lib.call("reset the device", d.lib.ContextReset, d.handle); err != nil {
		return err
	}
	context := out[uintptr]()
	if err := d.lib.call("open the device", d.lib.ContextRetain, address(context), d.handle); err != nil {
		return err
	}
	// Undo the retain above, since Open has retained the context already.
	if err := d.lib.call("close the device", d.lib.ContextRelease, d.handle); err != nil {
		return err
	}
	if *context != d.context {
		return errors.New("the driver returned another context")
	}
	d.lost.Store(nil)
	d.code.kernels.Clear()
	return errors.Join(d.lockAgain(), d.load(d.code.modules), d.tryBLAS())
}

var _ cuda.Reopener = (*device)(nil)
