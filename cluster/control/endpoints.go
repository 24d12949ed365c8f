package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/tree"
	"troupe/messages"
)

func (c *control) endpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "models-deploy", "models.deploy", `deploy a model: {"deployment": {"name": "kjv", "path": "models/kjv-2m"}}`, c.deploy),
		serve(c, life, "models-list", "models.list", "all deployments and how they are", c.list),
		serve(c, life, "models-get", "models.get", `one deployment: {"name": "kjv"}`, c.get),
		serve(c, life, "models-delete", "models.delete", `delete a deployment: {"name": "kjv"}`, c.remove),
		serve(c, life, "gpus-list", "gpus.list", "all GPUs, their memory and who holds it", c.gpus),
		serve(c, life, "replicas-list", "replicas.list", `all replicas, or of one model: {"model": "kjv"}`, c.replicas),
		serve(c, life, "replicas-restart", "replicas.restart", `restart a replica, no stream lost: {"name": "kjv-0"}`, c.restart),
		serve(c, life, "tree", "tree", `the supervision tree: {"format": "text"}, "json" or "dot"`, c.tree),
	}
}

// message is a pointer to a protobuf message.
type message[T any] interface {
	*T
	proto.Message
}

// serve makes an endpoint of a function from request to response.
func serve[Req, Res any, PReq message[Req], PRes message[Res]](
	c *control, life context.Context, name, subject, description string, handle func(context.Context, PReq) (PRes, error),
) Endpoint {
	return Endpoint{Name: name, Subject: "troupe.v1." + subject, Description: description, Handler: guarded(func(r micro.Request) {
		defer func() {
			if p := recover(); p != nil {
				c.Log.Error().Interface("panic", p).Str("endpoint", name).Msg("control request crashed")
				Fail(r, messages.Reason_REASON_INTERNAL, fmt.Sprint(p))
			}
		}()
		req := PReq(new(Req))
		if err := Decode(r.Data(), req); err != nil {
			Fail(r, messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
			return
		}
		ctx, cancel := context.WithTimeout(life, c.Timeout)
		defer cancel()
		res, err := handle(ctx, req)
		if err != nil {
			Fail(r, reasonOf(err), err.Error())
			return
		}
		body, err := Encode(res)
		if err != nil {
			Fail(r, messages.Reason_REASON_INTERNAL, err.Error())
			return
		}
		_ = r.Respond(body) // the asker may be gone
	})}
}

// Decode reads a request: JSON in the form of its message; nothing at all is the empty request.
func Decode(data []byte, into proto.Message) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := protojson.Unmarshal(data, into); err != nil {
		return fmt.Errorf("request: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return nil
}

// Encode writes a message as JSON with stable white space.
func Encode(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Compact(&b, raw)
	return b.Bytes(), err
}

// Fail answers a request with an error: in the headers of the micro protocol, and as JSON.
func Fail(r micro.Request, reason messages.Reason, detail string) {
	body, err := Encode(&messages.ErrorResponse{Reason: reason, Error: detail})
	if err != nil {
		body = nil
	}
	_ = r.Error(strconv.Itoa(reason.HTTPStatus()), strings.ReplaceAll(detail, "\n", " "), body) // the asker may be gone
}

func (c *control) deploy(ctx context.Context, req *messages.DeployModelRequest) (*messages.DeployModelResponse, error) {
	spec, err := Normalize(req.GetDeployment())
	if err != nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	if err := c.Backend.Inspect(spec.GetPath()); err != nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	revision, err := c.Backend.PutDeployment(ctx, spec, req.GetIfRevision())
	if err != nil {
		return nil, err
	}
	return &messages.DeployModelResponse{Deployment: spec, Revision: revision}, nil
}

func (c *control) list(ctx context.Context, _ *messages.ListModelsRequest) (*messages.ListModelsResponse, error) {
	all, err := c.Backend.Deployments(ctx)
	return &messages.ListModelsResponse{Models: all}, err
}

func (c *control) get(ctx context.Context, req *messages.GetModelRequest) (*messages.GetModelResponse, error) {
	if req.GetName() == "" {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, `name is missing; send {"name": "…"}`)
	}
	one, err := c.Backend.Deployment(ctx, req.GetName())
	return &messages.GetModelResponse{Model: one}, err
}

func (c *control) remove(ctx context.Context, req *messages.DeleteModelRequest) (*messages.DeleteModelResponse, error) {
	if req.GetName() == "" {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, `name is missing; send {"name": "…"}`)
	}
	return &messages.DeleteModelResponse{Name: req.GetName()}, c.Backend.DeleteDeployment(ctx, req.GetName())
}

func (c *control) gpus(ctx context.Context, _ *messages.ListGpusRequest) (*messages.ListGpusResponse, error) {
	all, err := c.Backend.Gpus(ctx)
	return &messages.ListGpusResponse{Gpus: all}, err
}

func (c *control) replicas(ctx context.Context, req *messages.ListReplicasRequest) (*messages.ListReplicasResponse, error) {
	all, err := c.Backend.Deployments(ctx)
	res := &messages.ListReplicasResponse{}
	for _, d := range all {
		if req.GetModel() == "" || d.GetSpec().GetName() == req.GetModel() {
			res.Replicas = append(res.Replicas, d.GetReplicas()...)
		}
	}
	return res, err
}

func (c *control) restart(ctx context.Context, req *messages.RestartReplicaRequest) (*messages.RestartReplicaResponse, error) {
	return &messages.RestartReplicaResponse{Name: req.GetName()}, c.Backend.RestartReplica(ctx, req.GetName())
}

func (c *control) tree(_ context.Context, req *messages.TreeRequest) (*messages.TreeResponse, error) {
	roots := c.Backend.Tree()
	switch req.GetFormat() {
	case "", "json":
		return &messages.TreeResponse{Roots: roots}, nil
	case "text":
		return &messages.TreeResponse{Text: tree.Text(roots)}, nil
	case "dot":
		return &messages.TreeResponse{Text: tree.DOT(roots)}, nil
	}
	return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, "format "+req.GetFormat()+" is not known; json, text and dot are")
}
