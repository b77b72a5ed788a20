def checks(subject):
    return []
