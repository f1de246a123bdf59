package redis

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"testing"
)

// TestOptionsReachTheStore: each field that a Config and the Options of a store both have is handed
// on, and stores may forget obsolete records.
func TestOptionsReachTheStore(t *testing.T) {
	cfg := Config{
		Username: "user", Password: "secret", DB: 3, TLS: &tls.Config{ServerName: "name"}, Prefix: "prefix",
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
	}
	o := cfg.options("host:1")
	from, to := reflect.ValueOf(cfg), reflect.ValueOf(o)
	for i := range to.NumField() {
		field := to.Type().Field(i)
		given := from.FieldByName(field.Name)
		switch {
		case !field.IsExported():
		case !given.IsValid():
			if to.Field(i).IsZero() {
				t.Errorf("%s is left empty for the store", field.Name)
			}
		case given.IsZero():
			t.Errorf("this test gives no %s", field.Name)
		case field.Type.Kind() == reflect.Func:
			if to.Field(i).IsNil() || to.Field(i).Pointer() != given.Pointer() {
				t.Errorf("%s does not reach the store", field.Name)
			}
		case !reflect.DeepEqual(to.Field(i).Interface(), given.Interface()):
			t.Errorf("%s does not reach the store: it gets %v", field.Name, to.Field(i).Interface())
		}
	}
}
