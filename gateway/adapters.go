package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"troupe/gateway/openai"
	"troupe/messages"
)

// Adapters is the catalogue of adapters. Its errors carry a *messages.Refused if the reason is
// known. A name is "<adapter>" or "<model>:<adapter>".
type Adapters interface {
	// FindAdapter returns the adapter with a name, or nil. It considers only adapters for which may
	// returns true. An ambiguous name is an error.
	FindAdapter(name string, may func(*messages.AdapterSpec) bool) (*messages.AdapterSpec, error)
	// Adapters returns the adapters of a model, or all for an empty name, sorted by model and name.
	Adapters(model string) []*messages.AdapterSpec
	RegisterAdapter(ctx context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error)
	DeleteAdapter(ctx context.Context, name string) (*messages.AdapterSpec, error)
}

// adapterObjects returns the adapters of deployed models that a caller may use. An adapter whose
// short name is ambiguous for the caller is listed by its full name.
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
		if _, err := g.cfg.Adapters.FindAdapter(name, c.mayUseAdapter); err != nil { // ambiguous
			name = a.GetModel() + ":" + name
		}
		list = append(list, adapterObject(name, a))
	}
	return list
}

func adapterObject(name string, a *messages.AdapterSpec) modelObject {
	return modelObject{
		ID: name, Object: "model", Created: a.GetRegistered().GetSeconds(), OwnedBy: "troupe",
		Root: a.GetName(), Parent: &a.Model,
	}
}

// loadRequest is the body of vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter. The latter
// uses only the name.
type loadRequest struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	InPlace bool   `json:"load_inplace"`
}

// Error types of vLLM, which clients check.
const (
	invalidUserInput = "InvalidUserInput"
	notFoundError    = "NotFoundError"
)

// loadAdapter serves vLLM's /v1/load_lora_adapter. As in vLLM, the adapter's base model need not
// have the same name as the model; only the shapes are compared.
func (g *Gateway) loadAdapter(w http.ResponseWriter, r *http.Request) {
	g.changeAdapters(w, r, "load_lora_adapter", func(req loadRequest) (string, error) {
		if req.Name == "" || req.Path == "" {
			return "", vllmError(http.StatusBadRequest, invalidUserInput,
				"Both 'lora_name' and 'lora_path' must be provided.")
		}
		spec := &messages.AdapterSpec{Name: req.Name, Path: req.Path}
		switch known, err := g.cfg.Adapters.FindAdapter(req.Name, allAdapters); {
		case err != nil:
			return "", err
		case known != nil && !req.InPlace:
			return "", vllmError(http.StatusBadRequest, invalidUserInput, fmt.Sprintf(
				"The lora adapter '%s' has already been loaded. "+
					"If you want to load the adapter in place, set 'load_inplace' to True.", req.Name))
		case known != nil:
			spec.Name, spec.Model, spec.Pinned = known.GetName(), known.GetModel(), known.GetPinned()
		}
		_, err := g.cfg.Adapters.RegisterAdapter(r.Context(),
			&messages.RegisterAdapterRequest{Adapter: spec, AnyBase: true, OnlyNew: !req.InPlace})
		return fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", req.Name), err
	})
}

// unloadAdapter serves vLLM's /v1/unload_lora_adapter. Running requests finish with the adapter.
func (g *Gateway) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	g.changeAdapters(w, r, "unload_lora_adapter", func(req loadRequest) (string, error) {
		if req.Name == "" {
			return "", vllmError(http.StatusBadRequest, invalidUserInput,
				"'lora_name' needs to be provided to unload a LoRA adapter.")
		}
		_, err := g.cfg.Adapters.DeleteAdapter(r.Context(), req.Name)
		if err != nil && isNotFound(err) {
			err = vllmError(http.StatusNotFound, notFoundError,
				fmt.Sprintf("The lora adapter '%s' cannot be found.", req.Name))
		}
		return fmt.Sprintf("Success: LoRA adapter '%s' removed successfully.", req.Name), err
	})
}

func allAdapters(*messages.AdapterSpec) bool { return true }

// adapterChangeTimeout bounds a change of adapters, which must reach all nodes.
const adapterChangeTimeout = 10 * time.Minute

// changeAdapters serves a request that changes adapters. It responds with plain text, as vLLM does.
func (g *Gateway) changeAdapters(
	w http.ResponseWriter, r *http.Request, endpoint string, change func(loadRequest) (string, error),
) {
	info := newRequestInfo(r, endpoint)
	done, err := func() (string, error) {
		if err := requireJSON(r); err != nil {
			return "", err
		}
		var req loadRequest
		memory := g.reserveMemory()
		defer memory.shrink(0)
		body, err := readBody(w, r, memory)
		if err != nil {
			return "", err
		}
		g.setWriteDeadline(w, adapterChangeTimeout) // reading the files takes time
		if err := json.Unmarshal(body, &req); err != nil {
			return "", openai.Invalid("", "the request body is invalid: "+err.Error())
		}
		info.object = "adapter=" + req.Name + " path=" + req.Path
		return change(req)
	}()
	if err != nil {
		g.respondError(w, info, asError(err))
		return
	}
	g.recordResponse(info, http.StatusOK)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, done) // fails if the client has left
}

func vllmError(status int, kind, message string) *openai.Error {
	reason := messages.Reason_REASON_INVALID_ARGUMENT
	if status == http.StatusNotFound {
		reason = messages.Reason_REASON_NOT_FOUND
	}
	return &openai.Error{Status: status, Reason: reason, Type: kind, Message: message}
}
