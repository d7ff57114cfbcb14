"""Where modules of the test run come from, and which new file would come before one."""
