"""Facts about library operators: permissions, devices, out variants, symmetric memory."""
