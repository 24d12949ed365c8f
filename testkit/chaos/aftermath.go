package chaos

import (
	"context"
	"fmt"
	"time"

	"troupe/testkit/cluster"
)

func (r *run) levels(ctx context.Context) (cluster.Baseline, error) {
	ctx, cancel := context.WithTimeout(ctx, recoversWithin)
	defer cancel()
	return r.MeasureBaseline(ctx)
}

// clean waits until nothing remains of the streams, and logs what was removed last if that took
// long.
func (r *run) clean(ctx context.Context, before cluster.Baseline) error {
	ctx, cancel := context.WithTimeout(ctx, cleanWithin)
	defer cancel()
	var last error
	began := time.Now()
	if err := cluster.Until(ctx, func() error {
		left := r.Leftovers(ctx, before)
		if left != nil {
			last = left
		}
		return left
	}); err != nil {
		return fmt.Errorf("left behind: %w", err)
	}
	if took := time.Since(began); took > notable {
		r.Note("nothing left behind after %s; removed last: %v", took.Round(time.Millisecond), last)
		return nil
	}
	r.Note("nothing left behind")
	return nil
}

// show prints the ends of the logs before the error, after making the nodes log the stacks of their
// goroutines.
func (r *run) show(ctx context.Context) {
	if r.cfg.Print != nil {
		r.cfg.Print(r.Logs(30))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitsWithin)
	defer cancel()
	if err := r.Quit(ctx); err != nil {
		r.Note("some logs lack the stacks of all goroutines: %v", err)
	}
}
