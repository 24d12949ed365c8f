package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"troupe/gateway/openai"
	"troupe/messages"
)

// Adapters is the catalogue of adapterObjects. Its errors carry a *messages.Refused where the reason is known. A name is "<adapter>" or
// "<model>:<adapter>".
type Adapters interface {
	// FindAdapter looks among those that may be used: nil where none has that name, and an error where several have it.
	FindAdapter(name string, may func(*messages.AdapterSpec) bool) (*messages.AdapterSpec, error)
	// Adapters are those of a model, or all, in the order of model and name.
	Adapters(model string) []*messages.AdapterSpec
	RegisterAdapter(ctx context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error)
	DeleteAdapter(ctx context.Context, name string) (*messages.AdapterSpec, error)
}

// resolve finds the deployment that a request is for, and the adapter if it names one.
func (g *Gateway) resolve(
	ctx context.Context,
	model string,
) (*messages.DeploymentStatus, *messages.AdapterSpec, error) {
	c := callerFrom(ctx)
	adapter, err := g.cfg.Adapters.FindAdapter(model, c.mayUseAdapter)
	switch {
	case err != nil:
		return nil, nil, err
	case adapter != nil:
		d, err := g.cfg.Directory.Deployment(ctx, adapter.GetModel())
		if err != nil && isNotFound(err) { // its own words may name other models
			err = openai.Refusal(
				messages.Reason_REASON_NOT_FOUND,
				fmt.Sprintf("adapter %q is of model %q, which is not deployed", adapter.GetName(), adapter.GetModel()),
			)
		}
		return d, adapter, err
	case !strings.Contains(model, ":"):
		d, err := g.deployment(ctx, model)
		return d, nil, err
	case c.key != nil:
		return nil, nil, modelNotFound(model)
	}
	return nil, nil, openai.Refusal(
		messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("adapter %q is not registered; see /v1/models for those there are", model),
	)
}

func isNotFound(err error) bool {
	var refused interface{ GetReason() messages.Reason }
	return errors.As(err, &refused) && refused.GetReason() == messages.Reason_REASON_NOT_FOUND
}

// adapterObjects are those of the deployments that a caller may use, by names that are clear to it.
func (g *Gateway) adapterObjects(c caller, deployed []*messages.DeploymentStatus) []modelObject {
	served := make(map[string]bool, len(deployed))
	for _, d := range deployed {
		served[d.GetSpec().GetName()] = true
	}
	var list []modelObject
	for _, a := range g.cfg.Adapters.Adapters("") {
		if !c.mayUseAdapter(a) || !served[a.GetModel()] {
			continue
		}
		name := a.GetName()
		if _, err := g.cfg.Adapters.FindAdapter(name, c.mayUseAdapter); err != nil { // another model has one of that name
			name = a.GetModel() + ":" + name
		}
		list = append(list, adapterObject(name, a))
	}
	return list
}

func adapterObject(name string, a *messages.AdapterSpec) modelObject {
	return modelObject{
		ID: name, Object: "model", Created: a.GetRegistered().GetSeconds(), OwnedBy: "troupe", Root: a.GetName(), Parent: &a.Model,
	}
}

// loadRequest is the body of vLLM's /v1/load_lora_adapter and, with the name alone, /v1/unload_lora_adapter.
type loadRequest struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	InPlace bool   `json:"load_inplace"`
}

// vLLM's words for what is wrong; clients look for them.
const (
	invalidUserInput = "InvalidUserInput"
	notFoundError    = "NotFoundError"
)

// loadAdapter is vLLM's. As there, the base model that the adapter's files name is not compared with the one it is loaded for, its shapes
// are.
func (g *Gateway) loadAdapter(w http.ResponseWriter, r *http.Request) {
	g.changeAdapters(w, r, "load_lora_adapter", func(req loadRequest) (string, error) {
		if req.Name == "" || req.Path == "" {
			return "", vllmError(
				http.StatusBadRequest,
				invalidUserInput,
				"Both 'lora_name' and 'lora_path' must be provided.",
			)
		}
		spec := &messages.AdapterSpec{Name: req.Name, Path: req.Path}
		switch known, err := g.cfg.Adapters.FindAdapter(req.Name, allAdapters); {
		case err != nil:
			return "", err
		case known != nil && !req.InPlace:
			return "", vllmError(http.StatusBadRequest, invalidUserInput, fmt.Sprintf(
				"The lora adapter '%s' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.",
				req.Name,
			))
		case known != nil:
			spec.Name, spec.Model, spec.Pinned = known.GetName(), known.GetModel(), known.GetPinned()
		}
		_, err := g.cfg.Adapters.RegisterAdapter(
			r.Context(),
			&messages.RegisterAdapterRequest{Adapter: spec, AnyBase: true, OnlyNew: !req.InPlace},
		)
		return fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", req.Name), err
	})
}

// unloadAdapter is vLLM's. Requests that have the adapter finish.
func (g *Gateway) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	g.changeAdapters(w, r, "unload_lora_adapter", func(req loadRequest) (string, error) {
		if req.Name == "" {
			return "", vllmError(
				http.StatusBadRequest,
				invalidUserInput,
				"'lora_name' needs to be provided to unload a LoRA adapter.",
			)
		}
		_, err := g.cfg.Adapters.DeleteAdapter(r.Context(), req.Name)
		if err != nil && isNotFound(err) {
			err = vllmError(
				http.StatusNotFound,
				notFoundError,
				fmt.Sprintf("The lora adapter '%s' cannot be found.", req.Name),
			)
		}
		return fmt.Sprintf("Success: LoRA adapter '%s' removed successfully.", req.Name), err
	})
}

func allAdapters(*messages.AdapterSpec) bool { return true }

// adapterChangeTimeout is how long a change of adapterObjects may take: all nodes are to hear of it.
const adapterChangeTimeout = 10 * time.Minute

// changeAdapters reads a request of whoever may change adapterObjects, and answers with plain text, as vLLM does.
func (g *Gateway) changeAdapters(
	w http.ResponseWriter,
	r *http.Request,
	endpoint string,
	change func(loadRequest) (string, error),
) {
	a := askedBy(r, endpoint)
	done, err := func() (string, error) {
		if err := requireJSON(r); err != nil {
			return "", err
		}
		var req loadRequest
		h := g.reserveMemory()
		defer h.shrink(0)
		body, err := readBody(w, r, h)
		if err != nil {
			return "", err
		}
		setWriteDeadline(w, adapterChangeTimeout) // files are read
		if err := json.Unmarshal(body, &req); err != nil {
			return "", openai.Invalid("", "the request is not as it should be: "+err.Error())
		}
		a.object = "adapter=" + req.Name + " path=" + req.Path
		return change(req)
	}()
	if err != nil {
		g.fail(w, a, asError(err))
		return
	}
	g.answered(a, http.StatusOK)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, done) // the client may have left
}

func vllmError(status int, kind, message string) *openai.Error {
	reason := messages.Reason_REASON_INVALID_ARGUMENT
	if status == http.StatusNotFound {
		reason = messages.Reason_REASON_NOT_FOUND
	}
	return &openai.Error{Status: status, Reason: reason, Type: kind, Message: message}
}
