"""Where texts come from: files of the user, known data sets, and a generated set."""
