package report

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/capacity"
	"troupe/messages"
)

// Of returns the report of a running cluster.
func Of(models []*messages.DeploymentStatus, gpus []*messages.GpuStatus, price *float64) *messages.CapacityReport {
	in := Live(models, gpus)
	in.Price = priceOf(price)
	r := Message(capacity.New(in))
	r.Observed, r.SoftwareDevices, r.Source = durationpb.New(Observed), software(gpus), "cluster"
	return r
}

// priceOf returns the price of a device-hour.
func priceOf(price *float64) capacity.Figure {
	if price == nil {
		return capacity.Unknown("no price is given")
	}
	return capacity.Known(*price)
}

// Message returns a report as a message.
func Message(r capacity.Report) *messages.CapacityReport {
	m := &messages.CapacityReport{}
	for _, row := range r.Models {
		m.Models = append(m.Models, &messages.ModelCapacity{
			Model: row.Name, Bytes: figure(row.Bytes), MinDevices: figure(row.MinDevices), Devices: figure(row.Devices),
			Peak: figure(row.Peak), Average: figure(row.Average), WastedHours: figure(row.Wasted),
			Cost: figure(row.Cost), WastedCost: figure(row.WastedCost),
		})
	}
	for _, p := range r.Pools {
		m.Pools = append(m.Pools, &messages.PoolCapacity{
			Pool: p.Kind.String(), Devices: figure(p.Devices), Average: figure(p.Average),
			WastedHours: figure(p.Wasted), Cost: figure(p.Cost), WastedCost: figure(p.WastedCost),
		})
	}
	return m
}

func figure(f capacity.Figure) *messages.CapacityFigure {
	if v, known := f.Value(); known {
		return &messages.CapacityFigure{Value: &v}
	}
	return &messages.CapacityFigure{Unknown: f.Why()}
}

// known returns the figure of a message.
func known(m *messages.CapacityFigure) capacity.Figure {
	if m == nil || m.Value == nil {
		return capacity.Unknown(m.GetUnknown())
	}
	return capacity.Known(m.GetValue())
}
