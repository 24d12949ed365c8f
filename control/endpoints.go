package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/cluster/service"
	"troupe/messages"
)

func (c *control) endpoints(life context.Context) []Endpoint {
	return slices.Concat(
		c.modelEndpoints(life),
		c.adapterEndpoints(life),
		c.replicaEndpoints(life),
		c.nodeEndpoints(life),
		c.kvEndpoints(life),
		c.plannerEndpoints(life),
		c.Extra,
	)
}

// message is a pointer to a protobuf message.
type message[T any] interface {
	*T
	proto.Message
}

// serve returns an endpoint that answers requests with handle.
func serve[Req, Res any, PReq message[Req], PRes message[Res]](
	c *control,
	life context.Context,
	name, subject, description string,
	handle func(context.Context, PReq) (PRes, error),
) Endpoint {
	return Endpoint{
		Name:        name,
		Subject:     "troupe.v1." + subject,
		Description: description,
		Handler: c.async(func(r *service.Request) {
			req, outcome, began := PReq(new(Req)), messages.Reason_REASON_INTERNAL, c.Runtime.Now()
			defer func() {
				if p := recover(); p != nil {
					c.Log.Error().
						Str("panic", supervise.PanicText(p)).
						Str("endpoint", name).
						Msg("control request crashed")
					fail(r, refusal(messages.Reason_REASON_INTERNAL,
						"the request crashed; see the log of node "+c.Node))
				}
				c.auditRequest(r, name, req, outcome, began)
			}()
			if err := decodeRequest(r, req); err != nil {
				outcome = messages.Reason_REASON_INVALID_ARGUMENT
				fail(r, refusal(outcome, err.Error()))
				return
			}
			ctx, cancel := c.Runtime.WithTimeout(withCaller(life, r.Sender().Name()), c.timeout(name))
			defer cancel()
			var res PRes
			err := c.checkStore(name)
			if err == nil {
				res, err = handle(ctx, req)
			}
			if err != nil {
				var text string
				outcome, text = errorReply(name, req, err)
				failed := refusal(outcome, text)
				if cause := (Refusal{}); errors.As(err, &cause) {
					failed.Memory, failed.NotLoaded = cause.GetMemory(), cause.GetNotLoaded()
				}
				fail(r, failed)
				return
			}
			outcome = messages.Reason_REASON_UNSPECIFIED
			body, err := encodeWithin(res, int(r.Limit()))
			if err == nil {
				err = r.Respond(body)
			}
			if err != nil {
				fail(r, refusal(messages.Reason_REASON_INTERNAL, err.Error()))
			}
		}),
	}
}

// decodeRequest decodes a request. An explain request may carry its request ID in the subject only.
func decodeRequest(r *service.Request, into proto.Message) error {
	if err := Decode(r.Data(), into); err != nil {
		return err
	}
	if e, ok := into.(*messages.ExplainRequest); ok && e.GetRequestId() == "" {
		e.RequestId = strings.TrimPrefix(r.Subject(), explainSubject)
	}
	return nil
}

// Decode decodes the JSON form of a request message. Empty data is an empty request.
func Decode(data []byte, into proto.Message) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if _, ok := into.(*messages.DeployModelRequest); ok {
		data = migrateClass(data)
	}
	err := protojson.Unmarshal(data, into)
	if err != nil && hasOtherForm(err) {
		err = protojson.Unmarshal(longForms(data, into), into)
	}
	if err != nil {
		detail := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
		if strings.Contains(detail, "unknown field") {
			detail += "; " + acceptedFields(into)
		} else {
			detail += remedy(detail, into)
		}
		return fmt.Errorf("request: %s", detail)
	}
	if deploy, ok := into.(*messages.DeployModelRequest); ok {
		return resetNulls(data, deploy)
	}
	return nil
}

// migrateClass replaces a class in the field priority of a deployment by the priority. See
// messages.MigrateDeployment.
func migrateClass(data []byte) []byte {
	var request map[string]json.RawMessage
	if json.Unmarshal(data, &request) != nil || request["deployment"] == nil {
		return data
	}
	deployment := messages.MigrateDeployment(request["deployment"])
	if bytes.Equal(deployment, request["deployment"]) {
		return data
	}
	request["deployment"] = deployment
	migrated, err := json.Marshal(request)
	if err != nil {
		return data
	}
	return migrated
}

// resetNulls adds the null fields of a deployment to the fields to reset, because protojson treats
// null as absent.
func resetNulls(data []byte, into *messages.DeployModelRequest) error {
	var raw struct {
		Deployment map[string]json.RawMessage `json:"deployment"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	fields := into.GetDeployment().ProtoReflect().Descriptor().Fields()
	for _, key := range slices.Sorted(maps.Keys(raw.Deployment)) {
		if string(raw.Deployment[key]) != "null" {
			continue
		}
		f := fields.ByJSONName(key)
		if f == nil {
			f = fields.ByTextName(key)
		}
		into.ResetFields = append(into.ResetFields, string(f.Name())) // not nil, since protojson rejects unknown fields
	}
	return nil
}

// acceptedFields lists the fields of a request for an error text.
func acceptedFields(m proto.Message) string {
	fields := m.ProtoReflect().Descriptor().Fields()
	if fields.Len() == 0 {
		return "the request takes no fields: send {}"
	}
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return "the request takes " + strings.Join(names, ", ")
}

// Encode returns a message as JSON with stable white space.
func Encode(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Compact(&b, raw)
	return b.Bytes(), err
}

func refusal(reason messages.Reason, detail string) *messages.Refused {
	return &messages.Refused{Reason: reason, Detail: detail}
}

// fail answers a request with an error, in the headers of the micro protocol and as JSON.
func fail(r *service.Request, why *messages.Refused) {
	body, err := Encode(&messages.ErrorResponse{Reason: why.GetReason(), Error: why.GetDetail(),
		Memory: why.GetMemory(), NotLoaded: why.GetNotLoaded()})
	if err != nil {
		body = nil
	}
	_ = r.Respond(body, micro.WithHeaders(micro.Headers{
		micro.ErrorHeader:     {strings.ReplaceAll(why.GetDetail(), "\n", " ")},
		micro.ErrorCodeHeader: {strconv.Itoa(why.GetReason().HTTPStatus())},
	})) // the client may have disconnected
}
