package control

import (
	"context"
	"math"

	"troupe/messages"
	"troupe/observe/report"
)

// capacityReport reports which devices models hold and use at the moment.
func (c *control) capacityReport(
	ctx context.Context,
	req *messages.CapacityReportRequest,
) (*messages.CapacityReportResponse, error) {
	if p := req.GetPrice(); p < 0 || math.IsInf(p, 0) || math.IsNaN(p) {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`price is not an amount; send the price of a device-hour: {"price": 2.5}`)
	}
	models, err := c.Backend.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	return &messages.CapacityReportResponse{Report: report.Of(models, c.view.Gpus(ctx), req.Price)}, nil
}
