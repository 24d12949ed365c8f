package catalogue

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"troupe/cluster/control"
	"troupe/messages"
)

// Base chooses the deployment of an adapter for which none was named: the one that its files name, else the only one there is.
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
	detail := "no model is deployed that it could be an adapter of; deploy its base model first"
	if len(all) > 0 {
		detail = fmt.Sprintf("the base model that its files name may be any of %s; say which one as model", strings.Join(all, ", "))
	}
	return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, detail)
}

// CheckBase refuses an adapter whose files name another base model. They name it by the path or repository of whoever trained it, of
// which the last element is compared with the deployment's name and folder.
func CheckBase(named string, d *messages.DeploymentSpec) error {
	if named == "" || names(path.Base(named), d) {
		return nil
	}
	return control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, fmt.Sprintf(
		`the adapter's base_model_name_or_path names another model than %s in %s; register it for its own base model, or add "any_base": true if it is this one by another name`,
		d.GetName(), d.GetPath()))
}

func names(base string, d *messages.DeploymentSpec) bool {
	return strings.EqualFold(base, d.GetName()) || strings.EqualFold(base, path.Base(d.GetPath()))
}
