package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/core/capacity"
	"troupe/messages"
	"troupe/observe/report"
	"troupe/recording"
	"troupe/workload"
)

type reportCommand struct {
	clusterClient
	Output    string        `name:"output" short:"o" enum:"table,json" default:"table" help:"${reportoutput}"`
	Price     *float64      `name:"price" placeholder:"AMOUNT" help:"Price of a device-hour; adds costs a day."`
	For       time.Duration `name:"for" placeholder:"DURATION" xor:"of" help:"${reportfor}"`
	Every     time.Duration `name:"every" default:"10s" help:"With --for, the time between two samples."`
	Trace     string        `name:"trace" placeholder:"FILE" xor:"of" help:"${reporttrace}"`
	Recording string        `name:"recording" placeholder:"FILE" xor:"of" help:"${reportrecording}"`
	Models    string        `name:"models" placeholder:"FILE" help:"${reportmodels}"`
	Window    time.Duration `name:"window" default:"5m" help:"With --trace, the time over which a use is averaged."`
}

func (reportCommand) Help() string {
	return `Shows for each model the devices that it has and uses, and what is wasted; then the same for pools of
devices: dedicated to models (static), those of the cluster, and shared by all models. A figure that is unknown is
shown as -, with the reason below.

  BYTES       weights of the model on one device
  MIN         devices that one replica needs
  DEVICES     devices that the model has
  PEAK        greatest share of these devices that was busy
  AVERAGE     mean share
  WASTED/DAY  device-hours a day: DEVICES x 24 x (1 - AVERAGE)

The size of a shared pool is a bound: models move between devices at no cost, and it has no headroom. If only
peaks and averages are known, it is given twice: for peaks that coincide, and for peaks that are apart.

The file of --models:

  models:
    - name: llama-70b     # as in the trace; a trace without models needs one entry
      bytes: 140GB
      min_devices: 2
      devices: 8
      prompt_rate: 8000   # tokens that one device computes a second, for --trace
      output_rate: 600    # tokens that one device generates a second
      # without --trace, instead of the rates:
      # peak: 0.85
      # average: 0.35

Examples:

  troupe report --price 2.50
  troupe report --for 10m
  troupe report --models examples/capacity.yaml
  troupe report --models models.yaml --trace requests.jsonl --window 1m
  troupe report --recording monday.rec.gz
  troupe report -o json | jq '.models[] | {model, wasted: .wasted_hours.value}'`
}

// Run prints a report of the cluster, of a trace, or of the figures in a file.
func (r reportCommand) Run(c console) error {
	if err := r.check(); err != nil {
		return &usageError{err}
	}
	var answer *messages.CapacityReport
	var err error
	if r.Recording != "" {
		answer, err = r.ofRecording()
	} else if r.Models != "" {
		answer, err = r.ofFile()
	} else {
		answer, err = r.ofCluster()
	}
	if err != nil {
		return err
	}
	if r.Output == "json" {
		return printJSON(c.out, answer)
	}
	_, err = fmt.Fprint(c.out, report.Table(answer))
	return err
}

func (r reportCommand) check() error {
	switch {
	case r.Price != nil && !(*r.Price >= 0 && *r.Price <= math.MaxFloat32):
		return errors.New("--price must be an amount from 0, such as 2.50")
	case r.Trace != "" && r.Models == "":
		return errors.New("--trace needs the speeds of its models; describe them in a file, and set --models")
	case r.For != 0 && r.Models != "":
		return errors.New("--for samples a cluster, and --models is used instead of one; remove one of them")
	case r.Recording != "" && r.Models != "":
		return errors.New("a recording has its models; remove --models")
	case r.For < 0 || r.Every <= 0 || r.Window <= 0:
		return errors.New("--for, --every and --window must be positive, such as 10m")
	}
	return nil
}

// ofRecording returns the report of a recording.
func (r reportCommand) ofRecording() (*messages.CapacityReport, error) {
	read, err := recording.Open(r.Recording)
	if err != nil {
		return nil, &usageError{err}
	}
	answer, err := report.Recorded(read, r.Price)
	if err != nil {
		return nil, fmt.Errorf("--recording %s: %w", r.Recording, err)
	}
	answer.Source = r.Recording
	return answer, nil
}

// ofFile returns the report of a trace, or of the figures in the file of models.
func (r reportCommand) ofFile() (*messages.CapacityReport, error) {
	models, err := readModels(r.Models, r.Trace != "")
	if err != nil {
		return nil, &usageError{err}
	}
	in, source := capacity.Input{}, r.Models
	for _, m := range models {
		in.Models = append(in.Models, m.Model)
	}
	if r.Trace != "" {
		trace, err := workload.Open(r.Trace, workload.Options{})
		if err != nil {
			return nil, err
		}
		if in, err = report.Trace(models, trace, r.Window); err != nil {
			return nil, fmt.Errorf("--trace %s with --models %s: %w", r.Trace, r.Models, err)
		}
		source += ", " + r.Trace
	}
	if in.Price = capacity.Unknown("no price is given"); r.Price != nil {
		in.Price = capacity.Known(*r.Price)
	}
	answer := report.Message(capacity.New(in))
	answer.Source = source
	return answer, nil
}

// ofCluster samples the cluster once, or for a while.
func (r reportCommand) ofCluster() (*messages.CapacityReport, error) {
	conn, err := r.connect("troupe report")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var samples []*messages.CapacityReport
	for begin := time.Now(); ; {
		one, err := r.sample(conn)
		if err != nil {
			return nil, err
		}
		if r.For == 0 {
			return one, nil
		}
		samples = append(samples, one)
		passed := time.Since(begin)
		if passed >= r.For {
			return report.Combine(samples, passed, r.Price), nil
		}
		time.Sleep(min(r.Every, r.For-passed))
	}
}

func (r reportCommand) sample(conn *nats.Conn) (*messages.CapacityReport, error) {
	answer := &messages.CapacityReportResponse{}
	request := &messages.CapacityReportRequest{Price: r.Price}
	err := r.request(context.Background(), conn, "capacity.report", request, answer)
	return answer.GetReport(), err
}
