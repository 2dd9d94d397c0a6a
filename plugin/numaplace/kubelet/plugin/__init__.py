"""The device-plugin API (deviceplugin/v1beta1): one server per resource."""
