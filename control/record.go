package control

import (
	"context"
	"errors"

	"troupe/internal/recorder"
	"troupe/messages"
)

// record begins a recording on this node, returns what it has recorded, or ends it.
func (c *control) record(
	_ context.Context,
	req *messages.NodeRecordRequest,
) (*messages.NodeRecordResponse, error) {
	switch {
	case c.Recorder == nil:
		return nil, Refuse(messages.Reason_REASON_UNSUPPORTED, "node "+c.Node+" does not record")
	case req.GetRecording() == "":
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`recording is missing; send a name of your own: {"recording": "…", "begin": true}`)
	}
	if req.GetBegin() {
		if err := c.Recorder.Begin(req.GetRecording(), max(0, req.GetElapsed().AsDuration())); err != nil {
			return nil, recordRefusal(err)
		}
	}
	batch, err := c.Recorder.Read(req.GetRecording(), req.GetAfter())
	if err != nil {
		return nil, recordRefusal(err)
	}
	if req.GetEnd() && !batch.More {
		c.Recorder.End(req.GetRecording())
	}
	return &messages.NodeRecordResponse{
		Lines: batch.Lines, Last: batch.Last, Lost: batch.Lost, More: batch.More, Open: uint32(c.OpenCalls()),
	}, nil
}

// recordRefusal returns the refusal for an error of the recorder.
func recordRefusal(err error) error {
	reason := messages.Reason_REASON_NOT_READY
	switch {
	case errors.Is(err, recorder.ErrUnknown):
		reason = messages.Reason_REASON_NOT_FOUND
	case errors.Is(err, recorder.ErrTooMany):
		reason = messages.Reason_REASON_CONFLICT
	}
	return Refuse(reason, err.Error())
}
