package catalogue

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"troupe/control"
	"troupe/messages"
)

// Base returns the deployment of an adapter that was registered without one: the one that its files
// name, or else the only deployment.
func Base(named string, deployed []*messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
	named = path.Base(named)
	of := slices.DeleteFunc(slices.Clone(deployed), func(d *messages.DeploymentSpec) bool { return !names(named, d) })
	if len(of) == 0 {
		of = deployed
	}
	if len(of) == 1 {
		return of[0], nil
	}
	var all []string
	for _, d := range of {
		all = append(all, d.GetName())
	}
	detail := "no deployment matches the adapter; deploy its base model first"
	if len(all) > 0 {
		detail = fmt.Sprintf(
			"the base model that its files name may be any of %s; set model",
			strings.Join(all, ", "),
		)
	}
	return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, detail)
}

// CheckBase rejects an adapter whose files name another base model. Authors name it by a path or
// repository; its last element is compared with the deployment's name and folder.
func CheckBase(named string, d *messages.DeploymentSpec) error {
	if named == "" || names(path.Base(named), d) {
		return nil
	}
	return control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, fmt.Sprintf(
		`the adapter's base_model_name_or_path names another model than %s in %s; `+
			`register it for its base model, or set "any_base": true if the names mean the same model`,
		d.GetName(),
		d.GetPath(),
	))
}

func names(base string, d *messages.DeploymentSpec) bool {
	return strings.EqualFold(base, d.GetName()) || strings.EqualFold(base, path.Base(d.GetPath()))
}
