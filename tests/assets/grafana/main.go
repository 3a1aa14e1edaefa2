// Command grafana-dashboards prints what Grafana's own schema finds wrong with dashboards, and fails if there is anything: keys
// that it does not have, values of another type, and what is missing. Which words a key may have, it does not compare.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	// Without it, the options and the queries of a panel may be anything.
	plugins.RegisterDefaultPlugins()
	wrong := false
	for _, path := range os.Args[1:] {
		for _, found := range check(path) {
			fmt.Printf("%s: %v\n", path, found)
			wrong = true
		}
	}
	if wrong {
		os.Exit(1)
	}
}

func check(path string) cog.BuildErrors {
	raw, err := os.ReadFile(path)
	if err != nil {
		return at("file", err)
	}
	var read dashboard.Dashboard
	found := at("dashboard", read.UnmarshalJSONStrict(raw))
	found = append(found, at("dashboard", read.Validate())...)
	return append(found, panels(raw)...)
}

// panels looks once more at the panels of a dashboard or of a row. The strict form lets pass whatever is in a field
// configuration, panels of a type that does not exist, and queries of a source that it does not know.
func panels(raw []byte) (found cog.BuildErrors) {
	var of struct{ Panels []json.RawMessage }
	if err := json.Unmarshal(raw, &of); err != nil {
		return at("panels", err)
	}
	for number, raw := range of.Panels {
		found = append(found, at(fmt.Sprintf("panels[%d]", number), append(panel(raw), panels(raw)...))...)
	}
	return found
}

func panel(raw []byte) (found cog.BuildErrors) {
	var shown struct {
		Type        string
		FieldConfig json.RawMessage
		Targets     []struct{ Datasource struct{ Type string } }
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return at("panel", err)
	}
	if _, known := cog.ConfigForPanelcfgVariant(shown.Type); !known && shown.Type != "row" {
		found = at("type", fmt.Errorf("there are no panels of the type %q", shown.Type))
	}
	for _, query := range shown.Targets {
		if query.Datasource.Type != "prometheus" {
			found = append(found, at("targets", fmt.Errorf("a query is of %q", query.Datasource.Type))...)
		}
	}
	var fields dashboard.FieldConfigSource
	found = append(found, at("fieldConfig", fields.UnmarshalJSONStrict(shown.FieldConfig))...)
	// What is wrong with its form has been found by now.
	var read dashboard.Panel
	read.UnmarshalJSONStrict(raw)
	return append(found, at("panel", read.Validate())...)
}

// at returns the errors that a parser collected, with where it looked. A parser that found none may return an empty list.
func at(place string, err error) cog.BuildErrors {
	if err == nil {
		return nil
	}
	return cog.MakeBuildErrors(place, err)
}
