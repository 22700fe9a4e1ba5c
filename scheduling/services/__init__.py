"""What people do with jobs, one verb a module: the admin, the command line and programs all call these."""
